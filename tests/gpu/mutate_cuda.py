"""mutate_cuda.py [NAME ...]: plants known mistakes in a copy of the repository, one at
a time, and runs the test that should find the mistake. Prints a table, and fails if a
mistake is not found. It takes some minutes, because it compiles each mistake."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A mistake.

    Attributes:
      name: a description of the mistake.
      file, old, new: the mistake replaces the text `old` in the file by `new`.
      test: the test that should find the mistake, as "FILE::TEST".
      passes: a test that does not find the mistake, to show that `test` is needed.
      finding: the finding in gpu_findings.md that the mistake brings back.
    """

    name: str
    file: str
    old: str
    new: str
    test: str
    passes: str = ""
    finding: str = ""


_ENGINE = "tests/gpu/test_cuda_engine.py::"
_MEASURED = "tests/gpu/test_cuda_measurement.py::"
_CONVOLUTION = "tests/gpu/test_cuda_convolution.py::"
_CODE = "tests/gpu/test_cuda_code_cache.py::"
_FAILURES = "tests/gpu/test_cuda_failures.py::"
_DEVICE = "tests/gpu/gpu_device_checks.py::"
_CUDA = "cc/engine/cuda/"
_LOADED = "test_scheduled_batch_sizes_are_compiled_when_a_region_is_loaded"
_BUILD_FAKES = (
    "import sys; sys.path.insert(0, 'tests/gpu'); "
    "import cuda_helpers; cuda_helpers.build_fakes()"
)
_RECORDED = "engine eng51_k2=5_k13=0_k18=0_k25=1_k27=8_k28=1"

MUTATIONS = [
    Mutation(
        "libraries only where the system has them",
        _CUDA + "driver/libraries.cc",
        "only.empty() ? added : only",
        "only",
        _FAILURES + "test_libraries_where_pip_puts_them",
    ),
    Mutation(
        "the driver is looked for where other libraries are",
        _CUDA + "driver/libraries.cc",
        'Open("libcuda.so.1", {{"libcuda.so.1"}},',
        'Open("libcuda.so.1", AttemptsFor({"libcuda.so.1"}, added),',
        _FAILURES + "test_libraries_in_several_directories_of_a_list",
    ),
    Mutation(
        "the first failure to load is kept",
        _CUDA + "driver/libraries.cc",
        "  if (!process.opened) {\n    IOS_ASSIGN_OR_RETURN(",
        "  static const auto* first = new auto(OpenAll(process.directories).status());"
        "\n  IOS_RETURN_IF_ERROR(*first);\n  if (!process.opened) {\n"
        "    IOS_ASSIGN_OR_RETURN(",
        _FAILURES + "test_a_library_that_comes_later_is_found",
    ),
    Mutation(
        "memory of the driver beside TensorFlow's",
        "cc/tensorflow/ops/region_kernel.cc",
        "*weights, device_, allocator_);",
        "*weights, device_, nullptr);",
        _DEVICE + "test_all_memory_is_tensorflow_s",
    ),
    Mutation(
        "a loan is not waited for",
        "cc/tensorflow/ops/engine_device.cc",
        "memory && !stream_->BlockHostUntilDone().ok()",
        "memory && false",
        _DEVICE + "test_memory_that_work_still_uses_is_not_written",
    ),
    Mutation(
        "an invalidated capture is not repeated",
        _CUDA + "driver/graph_capture.h",
        "attempt < kMaxCaptures",
        "attempt < 1",
        _ENGINE + "test_a_capture_that_another_thread_invalidates_is_repeated",
        finding="N15",
    ),
    Mutation(
        "an instance for each caller on a stream",
        _CUDA + "execution.cc",
        "if (instance.stream == stream) own = &instance;",
        "if (instance.stream == stream && !instance.in_use) own = &instance;",
        _ENGINE + "test_threads_that_share_a_stream_share_an_instance",
    ),
    Mutation(
        "only the largest difference of a network counts",
        "benchmarks/checks.py",
        "max(self.difference / _OUTLIER, self.norm) <= self.tolerance",
        "self.difference <= 1e-3",
        "tests/integration/test_bench_checks.py::test_a_deep_network_may_round_and_not_be_wrong",
    ),
    Mutation(
        "TensorRT at its default optimization level",
        "benchmarks/frameworks/saved_model_runners.py",
        "config.builder_optimization_level = 5",
        "config.builder_optimization_level = 3",
        "tests/gpu/test_bench_cuda.py::test_tensorrt_optimizes_as_much_as_it_can",
        finding="N10",
    ),
    Mutation(
        "TensorRT on one stream",
        "benchmarks/frameworks/saved_model_runners.py",
        "config.max_aux_streams = 7",
        "config.max_aux_streams = 0",
        "tests/gpu/test_bench_cuda.py::test_tensorrt_optimizes_as_much_as_it_can",
        finding="N10",
    ),
    Mutation(
        "XLA is given a flag that it does not know",
        "benchmarks/frameworks/saved_model_runners.py",
        "--xla_gpu_command_buffer_scheduling_mode=CONCURRENT",
        "--xla_gpu_command_buffer_scheduling=CONCURRENT",
        "tests/gpu/test_bench_cuda.py::test_xla_knows_the_flag_for_concurrent_graphs",
        finding="N10",
    ),
    Mutation(
        "no spinning before a sample",
        _CUDA + "timing/measure_work.cc",
        "    IOS_RETURN_IF_ERROR(Spin(prepared->spin));\n",
        "",
        _MEASURED + "test_the_gpu_does_not_wait_for_launches_one_by_one",
    ),
    Mutation(
        "an empty graph is not taken off",
        _CUDA + "timing/measure_work.cc",
        "std::max(elapsed - baseline, kClockMilliseconds)",
        "std::max(elapsed - 0 * baseline, kClockMilliseconds)",
        _MEASURED + "test_short_stages_are_as_long_as_their_kernels",
    ),
    Mutation(
        "clocks are not brought up",
        _CUDA + "timing/measure_work.cc",
        "sampler->WarmClocks()",
        "Status()",
        _MEASURED + "test_the_first_measurement_finds_the_clocks_up",
    ),
    Mutation(
        "the first launch of a graph is timed",
        _CUDA + "timing/measure_work.cc",
        "      IOS_CUDA_RETURN_IF_ERROR(device_, cuGraphUpload, exec.get(),\n"
        "                               stream_.get());\n",
        "",
        _MEASURED + "test_graphs_are_on_the_gpu_before_they_are_timed",
    ),
    Mutation(
        "graphs hold all runs of a sample",
        _CUDA + "timing/measure_work.cc",
        "in_graph > 1 && once < kSampleMilliseconds",
        "in_graph > 1",
        _MEASURED + "test_long_stages_are_not_repeated_in_graphs",
    ),
    Mutation(
        "plans are timed with warm weights",
        _CUDA + "timing/measure_work.cc",
        "if (other.ok()) {",
        "if (false) {",
        _MEASURED + "test_plans_are_timed_with_weights_that_are_not_in_the_cache",
    ),
    Mutation(
        "weights are evicted from the cache only before the first run",
        _CUDA + "timing/measure_work.cc",
        "if (before) IOS_RETURN_IF_ERROR(before(stream));\n      return work(stream);",
        "static int n = 0;\n"
        "      if (before && n++ == 0) IOS_RETURN_IF_ERROR(before(stream));\n"
        "      return work(stream);",
        _CONVOLUTION + "test_plans_that_wait_for_cold_weights_are_equally_fast",
    ),
    Mutation(
        "all data is in the cache of the fake GPU",
        "tests/gpu/fake_cuda/cache.cc",
        "missing += kLineBytes;",
        "missing += 0;",
        _MEASURED + "test_stages_alone_are_faster_than_in_a_network",
        finding="N5",
    ),
    Mutation(
        "the fake GPU's memory serves all work at once",
        "tests/gpu/fake_cuda/timeline.cc",
        "std::max(device->memory_free, start) +",
        "start +",
        _MEASURED + "test_concurrency_gains_nothing_where_memory_is_the_limit",
        finding="N5",
    ),
    Mutation(
        "merges are measured with copies of all parts",
        "cc/engine/merge_block.cc",
        "  if (IsOutput(block, i)) return true;",
        "  return true;",
        _MEASURED + "test_a_merge_is_measured_as_it_runs",
    ),
    Mutation(
        "cuDNN reads tensors with a pitch, in programs",
        _CUDA + "cuda_backend.cc",
        "(op.type != OperatorType::kConv2D ||\n"
        "          (op.groups > 1 && op.filters == op.groups))",
        "true",
        _MEASURED + "test_a_merge_is_measured_as_it_runs",
    ),
    Mutation(
        "latencies are kept for other kernels, too",
        _CUDA + "cuda_backend.cc",
        '", revision " +\n           std::to_string(kRevision)',
        "std::string()",
        _ENGINE + "test_latencies_are_of_one_revision_of_the_backend",
    ),
    Mutation(
        "schedules are looked up for TF32, whatever its switch says",
        "cc/tensorflow/plugin/runtime.cc",
        "device == kGpu ? FirstGpu()",
        'device == kGpu ? "gpu"',
        _DEVICE + "test_blocks_are_looked_up_where_conversions_keep_them",
    ),
    Mutation(
        "64 MiB of workspace for any convolution",
        _CUDA + "cudnn/plan_search.cc",
        "std::max(kSmallWorkspaceBytes, kWorkspaceTensors * bytes)",
        "kSmallWorkspaceBytes + 0 * bytes",
        "tests/gpu/test_cuda_convolution.py::test_plans_may_copy_all_of_large_tensors",
    ),
    Mutation(
        "sixteen of cuDNN's proposals are timed",
        _CUDA + "cudnn/plan_search.cc",
        "i < graph.candidates().size(); ++i",
        "i < std::min<size_t>(16, graph.candidates().size()); ++i",
        _CONVOLUTION + "test_all_that_is_ready_is_timed",
    ),
    Mutation(
        "plans are timed for every shape",
        "cc/engine/program.cc",
        "if (BatchSize(key.inputs) != key.scheduled.batch) return false;",
        "if (BatchSize(key.inputs) != key.scheduled.batch) return true;",
        _CONVOLUTION + "test_later_shapes_take_the_first_plan",
        finding="N3",
    ),
    Mutation(
        "plans are timed only for the shapes of the block and of the first call",
        "cc/engine/program.cc",
        "if (BatchSize(key.inputs) != key.scheduled.batch) return false;",
        "return false;",
        _DEVICE + _LOADED,
        finding="N3",
    ),
    Mutation(
        "scheduled batch sizes are compiled at their first calls",
        _CUDA + "cuda_backend.cc",
        "traits.measures_when_compiling = true;",
        "",
        _DEVICE + _LOADED,
        finding="N3",
    ),
    Mutation(
        "a call that fails counts as the first call",
        "cc/engine/program.cc",
        "if (is_first) first_inputs_.reset();",
        "",
        _CONVOLUTION + "test_a_call_that_fails_is_not_the_first_call",
        finding="N3",
    ),
    Mutation(
        "a search takes a plan that was not timed",
        _CUDA + "cudnn/plan_search.cc",
        'may_measure ? "no memory to time plans" : "untimed"',
        '"untimed"',
        _CONVOLUTION + "test_later_shapes_take_the_first_plan",
        finding="N3",
    ),
    Mutation(
        "the first plan may be one that cuDNN compiles",
        _CUDA + "cudnn/plan_search.cc",
        "if (graph->candidates()[i].compiles != compiles) continue;",
        "(void)compiles;",
        _CONVOLUTION + "test_the_first_plan_is_precompiled",
        finding="N3",
    ),
    Mutation(
        "forms are measured for every shape",
        _CUDA + "cudnn/convolution.cc",
        "if (known.value_or(!may_measure)) {",
        "if (known.value_or(false)) {",
        _CONVOLUTION + "test_no_form_is_measured_for_later_shapes",
        finding="N3",
    ),
    Mutation(
        "engines that fuse anything are not asked to clip",
        _CUDA + "cudnn/cudnn_graph.cc",
        "spec.activation == Activation::kRelu6 ||",
        "",
        _CONVOLUTION + "test_all_that_is_ready_is_timed",
    ),
    Mutation(
        "plans that are far slower are sampled, too",
        _CUDA + "timing/measure_work.cc",
        "  measurement.give_up = kFarSlower;\n",
        "",
        _CONVOLUTION + "test_plans_that_are_far_slower_are_not_sampled",
    ),
    Mutation(
        "three tiles are compiled for tensors with a pitch",
        _CUDA + "cudnn/plan_search.cc",
        "  if (AllDense(spec)) {\n    const size_t most",
        "  {\n    const size_t most",
        _CONVOLUTION + "test_all_that_takes_a_pitch_is_timed_where_there_is_one",
    ),
    Mutation(
        "one thread compiles all plans",
        _CUDA + "cudnn/plan_search.cc",
        "while (helpers.size() + 1 < most)",
        "while (helpers.size() + 1 < most * 0)",
        _CONVOLUTION + "test_each_core_compiles_a_plan",
        finding="N8",
    ),
    Mutation(
        "an activation without a bias gets none",
        _CUDA + "cudnn/convolution.cc",
        "if (NeedsBias(plan)) {",
        "if (NeedsBias(plan) && false) {",
        "tests/gpu/test_cuda_recordings.py::"
        "test_convolutions_are_those_the_engine_asks_for",
        finding="N1",
    ),
    Mutation(
        "all heuristics are asked for a plan that is known",
        _CUDA + "cudnn/cudnn_graph.cc",
        "      if (names_.count(candidate)) return;\n",
        "",
        _CONVOLUTION + "test_plan_is_timed_once",
    ),
    Mutation(
        "plans that are kept are built again",
        _CUDA + "cudnn/plan_search.cc",
        "for (const bool kept : {true, false}) {",
        "for (const bool kept : {false}) {",
        _CONVOLUTION + "test_a_plan_that_is_kept_is_loaded",
    ),
    Mutation(
        "code runs that others may have written",
        _CUDA + "driver/code_cache.cc",
        "(found.st_mode & (S_IWGRP | S_IWOTH)) == 0",
        "true",
        _CODE + "test_a_directory_that_others_may_fill_is_not_used",
    ),
    Mutation(
        "code runs that is damaged",
        _CUDA + "driver/code_cache.cc",
        'if (text->substr(0, begin) != kCodeHeader + Sha256Hex(code) + "\\n") {',
        "if (false) {",
        _CODE + "test_a_file_that_is_not_what_was_written_is_replaced",
    ),
    Mutation(
        "a link in place of plans is followed",
        _CUDA + "cudnn/plan_cache.cc",
        "O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC",
        "O_RDONLY | O_NONBLOCK | O_CLOEXEC",
        "tests/gpu/test_cuda_convolution.py::"
        "test_what_others_put_in_place_of_a_file_is_ignored[_link_to_plans]",
    ),
    Mutation(
        "addresses that rotate are captured again",
        _CUDA + "execution.cc",
        "const bool own = known && room;",
        "const bool own = known;",
        _ENGINE + "test_addresses_that_rotate_share_a_graph",
    ),
    Mutation(
        "a capture that failed is not tried again",
        _CUDA + "execution.cc",
        "    --runs_to_wait_;\n",
        "",
        _ENGINE + "test_where_capturing_fails_work_runs_eagerly",
    ),
    Mutation(
        "instances share handles of cuDNN",
        _CUDA + "cudnn/cudnn_handle.cc",
        "return handles->Take();",
        "return std::shared_ptr<CudnnHandle>(handles->builder(), [](void*) {});",
        _ENGINE + "test_each_instance_has_a_handle_of_cudnn",
    ),
    Mutation(
        "channels are padded by cuDNN, on every call",
        "cc/engine/program.cc",
        "LowerAndPad(block, schedule, {multiple})",
        "LowerAndPad(block, schedule, {multiple * 0})",
        "tests/gpu/test_cuda_channels.py::test_sums_of_odd_channels_are_joined_in_place",
    ),
    Mutation(
        "channels that are added have weights of zero",
        "cc/core/transforms/channel_ranges.cc",
        "summed && is_twice ? 0.5f : 1.0f",
        "summed && k >= range.channels ? 0.0f * is_twice : 1.0f",
        "tests/gpu/test_cuda_channels.py::test_infinities_of_one_sign_add_up",
    ),
    Mutation(
        "own Relu drops NaN",
        _CUDA + "kernels/kernel_source_activations.cc",
        "return x < low ? low : x;",
        "return fmaxf(x, low);",
        "tests/gpu/test_cuda_operators.py::test_what_keeps_nan",
    ),
    Mutation(
        "plans are stored whatever disturbed their timing",
        _CUDA + "cudnn/plan_search.cc",
        "comparison.is_certain);\n  Keep(",
        "true);\n  Keep(",
        _CONVOLUTION + "test_uncertain_plans_are_not_stored",
        finding="N9",
    ),
    Mutation(
        "each slice of a merge is a launch",
        _CUDA + "slices.cc",
        "end = std::max(begin + 1, EndOfSlices(group, begin));",
        "end = std::max(begin + 1, 0 * EndOfSlices(group, begin));",
        _MEASURED + "test_a_merge_is_measured_as_it_runs",
        finding="N7",
    ),
    Mutation(
        "the file of plans is read once",
        _CUDA + "cudnn/plan_cache.cc",
        "if (loaded_[device] == version) return;",
        "if (loaded_.count(device) > 0) return;",
        _CONVOLUTION + "test_plans_that_another_process_has_timed_are_used",
        finding="N3",
    ),
    Mutation(
        "the file of plans is written for each plan",
        _CUDA + "cudnn/plan_cache.cc",
        "if (++unsaved_[device] >= kMostUnsaved) Store(device);",
        "Store(device);",
        _CONVOLUTION + "test_plans_are_written_together",
        finding="N23",
    ),
    Mutation(
        "samples that vary are certain",
        _CUDA + "timing/measure_work.cc",
        "return Median(values) <= kSteady * Min(values);",
        "return true;",
        _CONVOLUTION + "test_uncertain_plans_are_not_stored[load=3000]",
        finding="N9",
    ),
    Mutation(
        "a time that is not above its baseline counts",
        _CUDA + "timing/measure_work.cc",
        "if (net <= least) {",
        "if (false) {",
        _CONVOLUTION + "test_uncertain_plans_are_not_stored[slow_baseline=100000]",
        finding="N12",
    ),
    Mutation(
        "stages are measured above the middle baseline, which may be disturbed",
        _CUDA + "timing/measure_work.cc",
        "of_work.baselines.empty() ? 0 : Min(of_work.baselines);",
        "of_work.baselines.empty() ? 0 : Median(of_work.baselines);",
        _MEASURED + "test_a_busy_gpu_makes_no_stage_faster",
    ),
    Mutation(
        "an empty graph that is rejected ends a measurement's graphs",
        _CUDA + "timing/measure_work.cc",
        "    prepared->baseline = baseline.ok() ?",
        "    if (!baseline.ok()) prepared->graph = GraphExec();\n"
        "    prepared->baseline = baseline.ok() ?",
        _MEASURED + "test_a_driver_may_reject_empty_graphs",
        finding="N22",
    ),
    Mutation(
        "all GPUs share the state of measurements",
        _CUDA + "timing/measure_work.cc",
        "return (*all)[device->ordinal()];",
        "return (*all)[0 * device->ordinal()];",
        _MEASURED + "test_gpus_are_measured_at_the_same_time",
        finding="N24",
    ),
    Mutation(
        "machine code for GPUs that NVRTC does not know",
        _CUDA + "kernels/kernel_cache.cc",
        "return {older, /*machine_code=*/false};",
        "return {older};",
        _FAILURES + "test_a_gpu_that_does_not_do",
        finding="N13",
    ),
    Mutation(
        "NVRTC 13 for drivers that do not load its code",
        _CUDA + "driver/libraries.cc",
        "version < 13000",
        "version < 12000",
        _FAILURES + "test_nvrtc_compiles_for_the_gpu",
        finding="N13",
    ),
    Mutation(
        "NVRTC 13 for GPUs that it does not know",
        _CUDA + "driver/libraries.cc",
        "if (HasOldGpu(driver)) return",
        "if (false) return",
        _FAILURES + "test_nvrtc_compiles_for_the_gpu",
        finding="N13",
    ),
    Mutation(
        "calls with host arrays use the default stream",
        _CUDA + "cuda_backend.cc",
        "return device_->lasting_stream();",
        "return nullptr;",
        _ENGINE + "test_the_legacy_stream_is_never_used",
        finding="N14",
    ),
    Mutation(
        "plans of one version of the driver only",
        _CUDA + "driver/device.h",
        "return driver_version_ / 1000;",
        "return driver_version_;",
        _CONVOLUTION + "test_updates_of_the_driver_keep_plans",
        finding="N16",
    ),
    Mutation(
        "more lanes than hardware queues",
        _CUDA + "cuda_backend.cc",
        "connections > 0 ? connections : kConnections",
        "connections > 0 ? connections : kMaxLanes",
        _ENGINE + "test_lanes_have_hardware_queues",
        finding="N18",
    ),
    Mutation(
        "handles keep the streams of lanes",
        _CUDA + "cudnn/cudnn_handle.cc",
        "if (scope.entered()) {",
        "if (false) {",
        _ENGINE + "test_handles_do_not_keep_streams_that_were_destroyed",
        finding="N19",
    ),
    Mutation(
        "a conditional load swaps two words",
        _CUDA + "kernels/kernel_source_common.cc",
        "@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }",
        "@p ld.global.v4.u32 {%1, %0, %2, %3}, [%4]; }",
        "tests/gpu/test_ptx.py::"
        "test_operators_pass_as_nvidia_s_compiler_understands_them",
        passes="tests/gpu/test_cuda_operators.py::test_what_keeps_nan",
    ),
    Mutation(
        "a program keeps few executions, however small",
        "cc/engine/program.h",
        "constexpr size_t kMaxExecutions = 64;",
        "constexpr size_t kMaxExecutions = 8;",
        _ENGINE + "test_batch_sizes_in_turn",
        finding="N2",
    ),
    Mutation(
        "all GPUs have little memory for executions",
        _CUDA + "cuda_backend.cc",
        "constexpr int64_t kExecutionShare = 16;",
        "constexpr int64_t kExecutionShare = 64;",
        _ENGINE + "test_batch_sizes_in_turn",
        finding="N2",
    ),
    Mutation(
        "executions may use all of the memory",
        "cc/engine/program.cc",
        "bytes > backend_->traits().execution_bytes",
        "false",
        _ENGINE + "test_executions_have_a_part_of_the_memory",
        finding="N2",
    ),
    Mutation(
        "other shapes keep their memory when it is short",
        "cc/engine/program.cc",
        "if (!others.empty()) {",
        "if (false) {",
        _ENGINE + "test_other_shapes_make_room_for_a_new_one",
        finding="N2",
    ),
    Mutation(
        "a fork waits for a compilation",
        "cc/engine/program.cc",
        "const bool allow_fork = !backend_->SharesHostMemory();",
        "const bool allow_fork = false;",
        _ENGINE + "test_a_fork_does_not_wait_for_a_compilation",
        finding="N3",
    ),
    Mutation(
        "a plan whose first runs were slow is slow",
        _CUDA + "timing/measure_work.cc",
        "again <= measurement.give_up * fastest",
        "again < 0",
        _CONVOLUTION + "test_uncertain_plans_are_not_stored",
        finding="N9",
    ),
    Mutation(
        "other work never disturbs samples of stages",
        _CUDA + "timing/measure_work.cc",
        "elapsed > kSteady * Min(of_work.elapsed)",
        "false",
        _MEASURED + "test_samples_that_other_work_delays_are_marked",
        finding="N9",
    ),
    Mutation(
        "an uncertain plan is better than that of another process",
        _CUDA + "cudnn/plan_cache.cc",
        "temporary_[device].erase(plan.first);",
        "(void)plan;",
        _CONVOLUTION + "test_plans_that_another_process_has_timed_are_used",
        finding="N9",
    ),
    Mutation(
        "steps of gpu_day time plans again",
        "benchmarks/gpu_day.py",
        "os.path.join(options.output, variable.lower())",
        '""',
        "tests/gpu/test_gpu_day.py::test_steps",
        finding="N4",
    ),
    Mutation(
        "all blocks of the fake GPU run at once",
        "tests/gpu/fake_cuda/timeline.cc",
        'return Machine::Get().Option("sms") * kThreads;',
        'return Machine::Get().Option("sms") * 0;',
        _MEASURED + "test_the_plan_that_is_fastest_alone_is_slower_in_a_stage",
        finding="N6",
    ),
    Mutation(
        "all engines of the fake cuDNN keep NaN",
        "tests/gpu/fake_cuda/cudnn.cc",
        "keeps_nan = engine.KeepsNan(),",
        "keeps_nan = true,",
        _CONVOLUTION + "test_a_fused_relu_keeps_nan_only_with_cudnn_s_note",
        finding="N11",
    ),
    Mutation(
        "an engine has more notes than cuDNN's frontend reads",
        "tests/gpu/recordings/h200_engines.txt",
        "graph 35cfd5595e45ae4d\n" + _RECORDED + " 0 -",
        "graph 35cfd5595e45ae4d\n" + _RECORDED + " 0 0,1,2,0",
        "tests/gpu/test_cuda_recordings.py::test_the_frontend_has_room_for_all_notes",
        finding="N17",
    ),
    Mutation(
        "tensors of any size are taken for a GPU",
        "cc/tensorflow/import/context.cc",
        "NumElements(*shape) >= kMaxGpuElements",
        "NumElements(*shape) > kMaxGpuElements",
        "tests/integration/test_decisions.py::test_tensors_of_two_to_the_31_elements",
        finding="N20",
    ),
    Mutation(
        "regions of any size are taken",
        "cc/tensorflow/plugin/runtime.cc",
        "return flops < kFewFlops;",
        "return false;",
        "tests/integration/test_small_regions.py::"
        "test_a_region_and_what_the_plugin_does_with_it",
        finding="N21",
    ),
]


def main() -> int:
    chosen = [m for m in MUTATIONS if not sys.argv[1:] or m.name in sys.argv[1:]]
    missed = 0
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "copy"
        ignored = shutil.ignore_patterns(".git", "__pycache__", ".pytest_cache")
        shutil.copytree(ROOT, copy, symlinks=True, ignore=ignored)
        print("| mistake | found by | |\n|---|---|---|")
        for mutation in chosen:
            found = plant(mutation, copy)
            missed += not found
            test = mutation.test.partition("::")[2]
            print(
                f"| {mutation.name} | `{test}` | {'found' if found else 'MISSED'} |",
                flush=True,
            )
    return int(missed > 0)


def plant(mutation: Mutation, copy: Path) -> bool:
    """Plants a mistake in the copy. Returns whether its test finds the mistake."""
    path = copy / mutation.file
    text = path.read_text()
    if text.count(mutation.old) != 1:
        raise SystemExit(f"{mutation.name}: {mutation.file} has changed")
    path.write_text(text.replace(mutation.old, mutation.new))
    try:
        compiled = mutation.file.endswith((".cc", ".h"))
        if compiled:
            run(["setup.py", "build_ext", "--inplace"], copy, check=True)
        # A test that cannot build the fake GPU fails, but does not find the mistake.
        run(["-c", _BUILD_FAKES], copy, check=True)
        done = run(["-m", "pytest", "-q", "-x", "-n", "0", mutation.test], copy)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{mutation.name}: {done.stdout}")
        if mutation.passes:
            run(["-m", "pytest", "-q", "-n", "0", mutation.passes], copy, check=True)
        return done.returncode == 1
    finally:
        path.write_text(text)
        # With a later time, the next build notices that the file has changed back.
        later = time.time() + 1
        os.utime(path, (later, later))


def run(arguments: list[str], copy: Path, check: bool = False):
    environment = {**os.environ, "PYTHONPATH": str(copy), "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if check and done.returncode:
        raise SystemExit(done.stdout)
    return done


if __name__ == "__main__":
    sys.exit(main())
