#include "cc/engine/cuda/kernels/kernel_cache.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "cc/engine/cuda/driver/code_cache.h"
#include "cc/engine/cuda/kernels/kernel_params.h"
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {
namespace {

std::string Describe(const KernelVariant& variant) {
  std::string text = variant.name;
  for (const auto& [name, value] : variant.macros) {
    text += std::string(" ") + name + "=" + value;
  }
  return text;
}

// The architecture that NVRTC compiles for.
struct Architecture {
  int compute_capability = 0;  // times 10
  bool machine_code = true;    // if false, PTX, which the driver compiles
};

// Returns the device's architecture. If NVRTC does not know it, returns PTX for
// the newest architecture below it that NVRTC knows, because the driver
// compiles PTX for all newer GPUs. NVRTC may know newer architectures than the
// device's: NVRTC 12.8 knows 10.0 and 12.0, but not 10.3.
Architecture ArchitectureOf(const Device* device) {
  const Nvrtc& nvrtc = device->libraries().nvrtc;
  const int own = device->compute_capability();
  int count = 0;
  if (nvrtc.nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS) return {own};
  std::vector<int> known(count);
  if (count == 0 || nvrtc.nvrtcGetSupportedArchs(known.data())) return {own};
  if (std::find(known.begin(), known.end(), own) != known.end()) return {own};
  int older = 0;
  for (const int one : known) {
    if (one < own) older = std::max(older, one);
  }
  if (older == 0) return {own};  // the GPU is too old; NVRTC reports that
  return {older, /*machine_code=*/false};
}

std::vector<std::string> OptionsOf(const Device* device,
                                   const KernelVariant& variant) {
  const Architecture architecture = ArchitectureOf(device);
  std::vector<std::string> options = {
      std::string("--gpu-architecture=") +
          (architecture.machine_code ? "sm_" : "compute_") +
          std::to_string(architecture.compute_capability),
      "--std=c++17"};
  for (const auto& [name, value] : variant.macros) {
    options.push_back(std::string("-D") + name + "=" + value);
  }
  return options;
}

// Compiles `source` to machine code for the device, or to PTX if NVRTC does not
// know the device's architecture.
StatusOr<std::string> Compile(const Device* device, const std::string& source,
                              const KernelVariant& variant) {
  const Nvrtc& nvrtc = device->libraries().nvrtc;
  const std::string file = std::string(variant.name) + ".cu";
  nvrtcProgram program = nullptr;
  nvrtcResult result = nvrtc.nvrtcCreateProgram(
      &program, source.c_str(), file.c_str(), 0, nullptr, nullptr);
  const auto destroy = [&](nvrtcProgram* p) { nvrtc.nvrtcDestroyProgram(p); };
  const std::unique_ptr<nvrtcProgram, decltype(destroy)> owner(&program,
                                                               destroy);
  const std::vector<std::string> options = OptionsOf(device, variant);
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  if (result == NVRTC_SUCCESS) {
    result =
        nvrtc.nvrtcCompileProgram(program, pointers.size(), pointers.data());
  }
  const bool machine_code = ArchitectureOf(device).machine_code;
  size_t bytes = 0;
  std::string image;
  if (result == NVRTC_SUCCESS) {
    result = machine_code ? nvrtc.nvrtcGetCUBINSize(program, &bytes)
                          : nvrtc.nvrtcGetPTXSize(program, &bytes);
  }
  if (result == NVRTC_SUCCESS) {
    image.resize(bytes);
    result = machine_code ? nvrtc.nvrtcGetCUBIN(program, &image[0])
                          : nvrtc.nvrtcGetPTX(program, &image[0]);
  }
  if (result == NVRTC_SUCCESS) return image;

  std::string log;
  if (program &&
      nvrtc.nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS) {
    log.resize(bytes);
    nvrtc.nvrtcGetProgramLog(program, &log[0]);
    // Keeps only the first line of NVRTC's log, because our errors are one
    // line.
    log.resize(std::min({log.find('\0'), log.find('\n'), log.size()}));
  }
  return Internal("NVRTC cannot compile the kernel " + Describe(variant) +
                  " for compute capability " +
                  std::to_string(device->compute_capability()) + ": " +
                  nvrtc.nvrtcGetErrorString(result) +
                  (log.empty() ? "" : ": " + log));
}

// Returns the key of a kernel's code in CodeCache. It contains everything on
// which the code depends.
std::string CodeKey(const Device* device, const std::string& source,
                    const KernelVariant& variant) {
  int major = 0, minor = 0;
  device->libraries().nvrtc.nvrtcVersion(&major, &minor);
  std::string key =
      "NVRTC " + std::to_string(major) + "." + std::to_string(minor);
  for (const std::string& option : OptionsOf(device, variant)) {
    key += " " + option;
  }
  return key + "\n" + source;
}

int BitsOf(float value) {
  int bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

void AddActivation(const Activation& activation, Macros* macros) {
  if (activation.kind != Activation::kNone) {
    macros->push_back({"IOS_ACTIVATION", activation.properties().cuda});
  }
  if (activation.alpha != 0.0f) {
    macros->push_back({"IOS_ALPHA", BitsOf(activation.alpha)});
  }
  if (activation.beta != 0.0f) {
    macros->push_back({"IOS_BETA", BitsOf(activation.beta)});
  }
}

KernelCache* KernelCache::Of(const Device* device) {
  static std::mutex mutex;
  static auto* caches = new std::map<int, KernelCache*>;  // by ordinal
  std::lock_guard<std::mutex> lock(mutex);
  KernelCache*& cache = (*caches)[device->ordinal()];
  if (!cache) cache = new KernelCache(device);
  return cache;
}

StatusOr<KernelCache::Loaded> KernelCache::Load(
    const KernelVariant& variant) const {
  const std::string source = std::string(kKernelParamsText) + "\n" +
                             kCommonSource + kActivationsSource +
                             variant.source;
  const auto load = [&](const std::string& image) -> StatusOr<Loaded> {
    CUmodule module = nullptr;
    IOS_CUDA_RETURN_IF_ERROR(device_, cuModuleLoadData, &module, image.data());
    Loaded loaded;
    loaded.module = Module(device_, module);
    IOS_CUDA_RETURN_IF_ERROR(device_, cuModuleGetFunction, &loaded.function,
                             module, variant.name);
    return loaded;
  };
  CodeCache& cache = CodeCache::Get();
  const std::string key = CodeKey(device_, source, variant);
  if (const std::optional<std::string> known = cache.Find(key)) {
    // If the driver was changed, it may reject the cached code, which is then
    // compiled again.
    StatusOr<Loaded> loaded = load(*known);
    if (loaded.ok()) return loaded;
  }
  IOS_ASSIGN_OR_RETURN(const std::string image,
                       Compile(device_, source, variant));
  StatusOr<Loaded> loaded = load(image);
  if (loaded.ok()) cache.Insert(key, image);
  return loaded;
}

StatusOr<CUfunction> KernelCache::Get(const KernelVariant& variant) {
  std::lock_guard<std::mutex> lock(mutex_);
  Loaded& loaded = loaded_[Describe(variant)];
  if (!loaded.function) {
    IOS_ASSIGN_OR_RETURN(loaded, Load(variant));
  }
  return loaded.function;
}

}  // namespace ios::cuda
