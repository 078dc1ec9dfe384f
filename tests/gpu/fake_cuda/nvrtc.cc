// The fake NVRTC. It compiles the text of kernels, with shim.h before it, by
// the host's C++ compiler. The resulting "CUBIN" contains the path of the
// shared object, which the fake driver opens.
#include <dlfcn.h>
#include <nvrtc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "machine.h"

struct _nvrtcProgram {
  std::string text, log, cubin, ptx;
};

namespace {

// The time in microseconds that NVRTC 12.9 needs for one of the engine's texts
// on one core (the median).
constexpr int64_t kCompilation = 130'000;

// The directory of this library.
std::string Directory() {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&Directory), &info);
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

// Runs a command; its messages go to `log`.
bool Run(const std::string& command, const std::string& log_path,
         std::string* log) {
  const int code = std::system((command + " 2>" + log_path).c_str());
  *log += ReadAll(log_path);
  return code == 0;
}

std::string Compiler() {
  const char* compiler = std::getenv("CXX");
  return compiler && *compiler ? compiler : "g++";
}

// Returns the command that compiles shared objects instead of the host's
// compiler, or an empty string if no such command is set. Its arguments are the
// paths of the text and of the shared object, the architecture and macros.
std::string OtherCompiler() {
  const char* command = std::getenv("FAKE_NVRTC_COMPILER");
  return command ? command : "";
}

// Returns C++ code for every `extern "C" __global__ void name(`. With this
// code, the driver can call the kernel, and knows the largest size of its
// blocks.
std::string Trampolines(const std::string& preprocessed) {
  // The pattern has the white space that the preprocessor writes.
  static const std::string kKernel =
      "extern \"C\" __attribute__((ios_kernel)) void ";
  static const std::string kBounds = "__attribute__((ios_bounds(";
  std::string out;
  for (size_t at = 0;
       (at = preprocessed.find(kKernel, at)) != std::string::npos;) {
    at += kKernel.size();
    at = preprocessed.find_first_not_of(" \n", at);
    std::string bounds;
    if (preprocessed.compare(at, kBounds.size(), kBounds) == 0) {
      at += kBounds.size();
      bounds =
          preprocessed.substr(at, preprocessed.find_first_of(",)", at) - at);
      at = preprocessed.find(")))", at) + 3;
      at = preprocessed.find_first_not_of(" \n", at);
    }
    const size_t end = preprocessed.find_first_of(" \n(", at);
    const std::string name = preprocessed.substr(at, end - at);
    out += "IOS_HOST_KERNEL(" + name + ")\n";
    if (!bounds.empty()) {
      out += "extern \"C\" { extern const unsigned ios_bounds_" + name +
             "; const unsigned ios_bounds_" + name + " = " + bounds + "; }\n";
    }
  }
  return out;
}

// The compute capabilities for which NVRTC 13 compiles, in order. With the
// option "nvrtc_newest", this NVRTC is older than the GPUs above. With the
// option "nvrtc_lacks", it lacks one compute capability, as NVRTC 12.8 lacks
// 10.3.
std::vector<int> SupportedArchitectures() {
  fake::Machine& machine = fake::Machine::Get();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  std::vector<int> architectures;
  for (const int one : {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121}) {
    if (one <= machine.Option("nvrtc_newest", 121) &&
        one != machine.Option("nvrtc_lacks")) {
      architectures.push_back(one);
    }
  }
  return architectures;
}

// Parses an architecture: "sm_90" asks for machine code, and "compute_90" for
// PTX. Returns false if the architecture is not supported.
bool ParseArchitecture(const std::string& text, bool* machine_code) {
  int number = 0;
  *machine_code = std::sscanf(text.c_str(), "sm_%d", &number) == 1;
  if (!*machine_code && std::sscanf(text.c_str(), "compute_%d", &number) != 1) {
    return false;
  }
  const std::vector<int> supported = SupportedArchitectures();
  return std::find(supported.begin(), supported.end(), number) !=
         supported.end();
}

// Compiles the text of kernels for the host, with shim.h before it.
bool CompileForHost(const std::string& base, const std::string& text,
                    const std::string& defines, std::string* log) {
  const std::string source = base + ".cu", all = base + ".cc";
  const std::string flags = " -std=c++17 -w -include " FAKE_CUDA_SOURCES
                            "/shim.h " +
                            defines + " -x c++ ";
  bool done = Run(Compiler() + flags + "-E -P " + source + " -o " + all,
                  base + ".log", log);
  if (done) {
    const std::string trampolines = Trampolines(ReadAll(all));
    std::ofstream(all) << text << "\n" << trampolines;
    done = Run(
        Compiler() + flags + "-O1 -fPIC -shared " + all + " -o " + base + ".so",
        base + ".log", log);
  }
  std::remove(all.c_str());
  return done;
}

// Compiles a text and returns the path of the shared object. If the text does
// not compile, returns an empty string and stores the messages in `log`.
std::string Compile(const std::string& text, const std::string& architecture,
                    const std::string& defines, std::string* log) {
  const std::string other = OtherCompiler();
  const std::string shims = ReadAll(FAKE_CUDA_SOURCES "/shim.h") +
                            ReadAll(FAKE_CUDA_SOURCES "/host_kernel.h");
  char name[32];
  std::snprintf(name, sizeof(name), "%016zx",
                std::hash<std::string>()(
                    text + '\0' + defines + '\0' + shims +
                    (other.empty() ? "" : other + '\0' + architecture)));
  // Other builds of the fakes also use these files. Their names are hashes of
  // everything that determines their content.
  const std::string directory = Directory() + "/../kernels";
  mkdir(directory.c_str(), 0777);
  const std::string library = directory + "/" + name + ".so";
  if (access(library.c_str(), R_OK) == 0) return library;

  const std::string base =
      directory + "/" + name + "." + std::to_string(getpid());
  const std::string source = base + ".cu", out = base + ".so",
                    log_path = base + ".log";
  std::ofstream(source) << text;
  bool done =
      other.empty()
          ? CompileForHost(base, text, defines, log)
          : Run(other + " " + source + " " + out + " " + architecture + defines,
                log_path, log);
  done = done && std::rename(out.c_str(), library.c_str()) == 0;
  for (const std::string& file : {source, log_path}) std::remove(file.c_str());
  return done ? library : "";
}

}  // namespace

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 2;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = SupportedArchitectures().size();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int* architectures) {
  const std::vector<int> supported = SupportedArchitectures();
  std::copy(supported.begin(), supported.end(), architectures);
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION"
                                           : "NVRTC_ERROR_OF_THE_FAKE";
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text,
                               const char*, int headers, const char* const*,
                               const char* const*) {
  fake::Machine& machine = fake::Machine::Get();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (headers != 0) return NVRTC_ERROR_INVALID_INPUT;
  *program = new _nvrtcProgram{text, "", "", ""};
  machine.Made("nvrtc program", *program);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  fake::Machine& machine = fake::Machine::Get();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (!machine.Unmade("nvrtc program", *program)) {
    return NVRTC_ERROR_INVALID_PROGRAM;
  }
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count,
                                const char* const* options) {
  fake::Machine& machine = fake::Machine::Get();
  const fake::Call entered(&machine);
  machine.Count("nvrtcCompileProgram");
  machine.Prepare(kCompilation);
  std::string architecture, defines;
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    static const std::string kArchitecture = "--gpu-architecture=";
    if (option.compare(0, kArchitecture.size(), kArchitecture) == 0) {
      architecture = option.substr(kArchitecture.size());
    } else if (option.compare(0, 2, "-D") == 0) {
      defines += " '" + option + "'";
    }
  }
  bool machine_code = false;
  if (!ParseArchitecture(architecture, &machine_code)) {
    program->log = "nvrtc: error: invalid value for --gpu-architecture (-arch)";
    return NVRTC_ERROR_INVALID_OPTION;
  }
  if (machine.Option("nvrtc_error")) {
    program->log = "kernels.cu(1): error: injected";
    return NVRTC_ERROR_COMPILATION;
  }
  const std::string library =
      Compile(program->text, architecture, defines, &program->log);
  if (library.empty()) return NVRTC_ERROR_COMPILATION;
  program->ptx = "FAKE PTX compute_" +
                 architecture.substr(architecture.find('_') + 1) + " " +
                 library;
  if (machine_code) {
    program->cubin = "FAKE CUBIN " + architecture + " " + library;
  }
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->ptx.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) {
  std::memcpy(ptx, program->ptx.c_str(), program->ptx.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->cubin.empty() ? 0 : program->cubin.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  std::memcpy(cubin, program->cubin.c_str(), program->cubin.size() + 1);
  return NVRTC_SUCCESS;
}

}  // extern "C"
