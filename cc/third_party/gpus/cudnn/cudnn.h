// The name by which the cuDNN frontend of TensorFlow's wheel includes cuDNN.
#include <cudnn.h>
