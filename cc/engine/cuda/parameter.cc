#include "cc/engine/cuda/parameter.h"

#include <cstring>

namespace ios::cuda {
namespace {

// Transposes [rows, columns] to [columns, rows], with elements of `size` bytes.
std::vector<char> Transpose(const std::vector<char>& matrix, int64_t rows,
                            int64_t columns, int64_t size) {
  std::vector<char> result(matrix.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      std::memcpy(&result[(c * rows + r) * size],
                  &matrix[(r * columns + c) * size], size);
    }
  }
  return result;
}

// Returns the number of cells in a filter's window.
int64_t Windows(const Shape& shape) {
  return shape.size() == 4 ? shape[0] * shape[1] : 1;
}

CUdeviceptr ToDevicePointer(const std::shared_ptr<const void>& memory) {
  return reinterpret_cast<CUdeviceptr>(memory.get());
}

}  // namespace

CudaParameter::CudaParameter(const Device* device, const ConstArray& array)
    : device_(device),
      windows_(Windows(array.shape)),
      channels_(NumElements(array.shape) / array.shape.back() / windows_),
      filters_(array.shape.back()),
      given_(array.data, array.data + NumElements(array.shape)) {}

StatusOr<CudaParameter::HostCopy> CudaParameter::ToHost(DataType dtype) const {
  HostCopy copy;
  copy.data.resize(windows_ * channels_ * filters_ * SizeOf(dtype));
  if (packed_.empty()) {
    ConvertFromFloat(given_.data(), given_.size(), dtype, copy.data.data());
    return copy;
  }
  copy.layout = packed_.begin()->first;
  IOS_ASSIGN_OR_RETURN(const Stream stream, MakeStream(device_));
  IOS_CUDA_RETURN_IF_ERROR(device_, cuMemcpyDtoHAsync, copy.data.data(),
                           ToDevicePointer(packed_.begin()->second),
                           copy.data.size(), stream.get());
  IOS_CUDA_RETURN_IF_ERROR(device_, cuStreamSynchronize, stream.get());
  return copy;
}

void CudaParameter::Keep(std::shared_ptr<const void> object) {
  std::lock_guard<std::mutex> lock(mutex_);
  kept_.insert(std::move(object));
}

StatusOr<std::shared_ptr<const void>> CudaParameter::Packed(Layout layout,
                                                            DataType dtype) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = packed_.find(layout);
  if (known != packed_.end()) return known->second;
  IOS_ASSIGN_OR_RETURN(HostCopy copy, ToHost(dtype));
  if (copy.layout != layout) {
    const int64_t rows = windows_ * channels_, size = SizeOf(dtype);
    if (copy.layout == Layout::kKrsc) {
      copy.data = Transpose(copy.data, filters_, rows, size);
    } else if (copy.layout == Layout::kCrsk) {
      copy.data = Transpose(copy.data, channels_, windows_, filters_ * size);
    }
    if (layout == Layout::kKrsc) {
      copy.data = Transpose(copy.data, rows, filters_, size);
    } else if (layout == Layout::kCrsk) {
      copy.data = Transpose(copy.data, windows_, channels_, filters_ * size);
    }
  }
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<void> memory,
                       device_->Allocate(copy.data.size()));
  IOS_RETURN_IF_ERROR(
      device_->Upload(copy.data.data(), copy.data.size(), memory.get()));
  std::vector<float>().swap(given_);
  return packed_[layout] = memory;
}

}  // namespace ios::cuda
