// The interface between a kernel that was compiled for the host and the fake
// driver that runs it. This file includes no other header, because the text of
// kernels is compiled after it.
#ifndef IOS_TF_TESTS_FAKE_CUDA_HOST_KERNEL_H_
#define IOS_TF_TESTS_FAKE_CUDA_HOST_KERNEL_H_

struct IosHostIndex {
  unsigned x, y, z;
};

// An allocation, with the bytes of it that the running work reads and writes.
// One bit stands for two bytes, the size of the smallest element.
struct IosHostBuffer {
  char* base;
  unsigned long bytes;
  unsigned long* read;
  unsigned long* written;
  unsigned long low, high;  // no byte outside of [low, high) has a set bit
  bool written_twice;
  bool shared;  // a thread writes what another one reads
};

struct IosHostTracker {
  static constexpr unsigned kSlots = 64;
  // A cache of buffers by address. If a buffer is not in the cache, `find`
  // looks it up. `find` reports an access that is not legal, and then returns
  // null.
  IosHostBuffer* slots[kSlots];
  IosHostBuffer* (*find)(const void* pointer, unsigned long bytes, bool write);
  char* nowhere;  // where accesses that are not legal go

  // The last accesses of the running thread. This thread may write an element
  // that it has read, but other threads may not.
  static constexpr unsigned kAccesses = 64;
  unsigned long accesses[kAccesses];
  unsigned long access_count;

  void (*violate)(const char* text);  // reports another mistake
  unsigned long block_number;  // counts the blocks of all kernels, from 1
};

struct IosHostState {
  IosHostIndex thread, block, block_dim, grid_dim;
  IosHostTracker* tracker;
  void (*barrier)();
};

// Returns whether the running thread has accessed this address before.
inline bool IosHostOwn(const IosHostTracker* tracker, unsigned long address) {
  for (unsigned i = 0; i < IosHostTracker::kAccesses; ++i) {
    if (i < tracker->access_count && tracker->accesses[i] == address)
      return true;
  }
  return false;
}

// Records an access and returns its buffer, or null if the access is not legal.
inline IosHostBuffer* IosHostTouch(IosHostTracker* tracker, const void* pointer,
                                   unsigned long bytes, bool write) {
  const unsigned long address = reinterpret_cast<unsigned long>(pointer);
  IosHostBuffer*& slot =
      tracker->slots[(address >> 12) % IosHostTracker::kSlots];
  IosHostBuffer* buffer = slot;
  const bool aligned = bytes <= 16 && address % bytes == 0 && bytes % 2 == 0;
  if (!buffer || !aligned ||
      address - reinterpret_cast<unsigned long>(buffer->base) >=
          buffer->bytes ||
      address - reinterpret_cast<unsigned long>(buffer->base) + bytes >
          buffer->bytes) {
    buffer = tracker->find(pointer, bytes, write);
    if (!buffer) return nullptr;
    slot = buffer;
  }
  const unsigned long offset =
      address - reinterpret_cast<unsigned long>(buffer->base);
  const unsigned long mask = ((1ul << (bytes / 2)) - 1) << (offset / 2 % 64);
  unsigned long& word = (write ? buffer->written : buffer->read)[offset / 128];
  const unsigned long other =
      (write ? buffer->read : buffer->written)[offset / 128];
  if (write && (word & mask)) buffer->written_twice = true;
  if ((other & mask) && !IosHostOwn(tracker, address)) buffer->shared = true;
  word |= mask;
  tracker->accesses[tracker->access_count++ % IosHostTracker::kAccesses] =
      address;
  if (offset < buffer->low) buffer->low = offset;
  if (offset + bytes > buffer->high) buffer->high = offset + bytes;
  return buffer;
}

#endif  // IOS_TF_TESTS_FAKE_CUDA_HOST_KERNEL_H_
