"""python -m ios_tf.bench: the experiments, without TensorFlow."""

import sys

from ios_tf.bench.experiments.command import main

sys.exit(main())
