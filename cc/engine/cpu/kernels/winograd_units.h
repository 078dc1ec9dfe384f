// Divides the work of a WinogradPlan into units. A unit computes some filters
// of some tiles. The layout of a unit's data in scratch memory fits the rows
// and vectors that matrix products keep in registers.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_UNITS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_UNITS_H_

#include <algorithm>
#include <cstdint>

#include "cc/engine/cpu/kernels/registers.h"
#include "cc/engine/cpu/kernels/winograd.h"

namespace ios::cpu {

// The number of channels (or filters) that are stored next to each other: one
// cache line.
inline constexpr int64_t kGroup = 16;
// The number of filters whose products are computed together.
inline constexpr int64_t kBlock = 2 * kGroup;

// Returns the number of tiles that a matrix product keeps in registers.
int64_t MaxRows();

// Rounds a number of floats up to an odd number of cache lines. If the distance
// between planes were a power of two, they would use only few sets of a cache.
inline int64_t OddLines(int64_t floats) {
  return (CeilDiv(floats, 16) | 1) * 16;
}

// A unit of work, and the addresses of its planes in scratch memory.
struct Unit {
  Unit(const WinogradPlan& plan, int64_t number, float* scratch) {
    const int64_t strip = number / plan.parts, part = number % plan.parts;
    first = strip * plan.tiles() / plan.strips;
    count = (strip + 1) * plan.tiles() / plan.strips - first;
    const int64_t blocks_of_filters = CeilDiv(plan.filters, kBlock);
    filter_begin = part * blocks_of_filters / plan.parts * kBlock;
    filter_end = std::min((part + 1) * blocks_of_filters / plan.parts * kBlock,
                          plan.filters);
    blocks = CeilDiv(count, MaxRows());
    rows = CeilDiv(count, blocks);
    block_floats = CeilDiv(plan.channels, kGroup) * rows * kGroup;
    tile_plane = OddLines(blocks * block_floats);
    product_plane = OddLines(count * kBlock);
    tiles = scratch;
    products = scratch + plan.planes() * tile_plane;
    by_definition = products + plan.planes() * product_plane;
  }

  // Returns the first tile of a block. The blocks of a unit differ by at most
  // one tile in size.
  int64_t BlockBegin(int64_t block) const { return block * count / blocks; }

  int64_t first, count;  // tiles
  int64_t filter_begin, filter_end;
  int64_t blocks, rows;  // blocks of tiles, and tiles of the largest block
  int64_t block_floats, tile_plane, product_plane;
  float* tiles;          // [planes][blocks][groups of channels][rows][kGroup]
  float* products;       // [planes][tiles][kBlock]
  float* by_definition;  // [tiles]: 1 if the tile needs ComputeDirectly, or 0
};

// The place of a tile in the output: its image, its first cell, and its size,
// which may be smaller at the edges.
struct Place {
  Place(const WinogradPlan& plan, int64_t tile)
      : image(tile / (plan.tiles_high * plan.tiles_wide)),
        y(tile / plan.tiles_wide % plan.tiles_high * plan.side[0]),
        x(tile % plan.tiles_wide * plan.side[1]),
        high(std::min(plan.side[0], plan.out_height - y)),
        wide(std::min(plan.side[1], plan.out_width - x)) {}
  int64_t image, y, x;
  int64_t high, wide;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_UNITS_H_
