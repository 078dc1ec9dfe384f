// Tests of FloatPool: a slab lives as long as its pieces.
#include "cc/engine/host/float_memory.h"

#include <memory>

#include "tests/cc/testing.h"

namespace ios {
namespace {

TEST(SlabGoesWithTheLastOfItsPieces) {
  FloatPool pool;
  std::shared_ptr<float> first = pool.Allocate(100);
  std::shared_ptr<float> second = pool.Allocate(1);
  const std::weak_ptr<float> slab = first;
  EXPECT(second.get() >= first.get() + 100);
  first.reset();
  EXPECT(!slab.expired());
  second.reset();
  EXPECT(slab.expired());
  EXPECT(pool.Allocate(1) != nullptr);
}

}  // namespace
}  // namespace ios
