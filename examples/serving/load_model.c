/* Serves a converted SavedModel the way a model server does, over the C API:
 * loads it by TF_LoadSessionFromSavedModel, sends its warm-up requests, and
 * then the same requests from many threads, whose outputs must not differ by a
 * bit.
 *
 *     load_model_c MODEL PLUGIN THREADS RUNS OUTPUTS
 *
 * PLUGIN is libios_tf_ops.so, or "" for plain TensorFlow. OUTPUTS is where to
 * write the outputs of all warm-up requests, one after the other, as they lie
 * in memory. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "examples/serving/warmup.h"
#include "tensorflow/c/c_api.h"

typedef struct Server {
  TF_Session* session;
  TF_WarmupRequest* requests;
  int num_requests;
  TF_Tensor*** expected; /* [request][output] */
  int runs;
  atomic_int next, wrong;
} Server;

static double Milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void Check(TF_Status* status) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "load_model_c: %s\n", TF_Message(status));
  exit(1);
}

/* The outputs of one request; to be freed with FreeOutputs. */
static TF_Tensor** Run(const Server* server, int r) {
  const TF_WarmupRequest* request = &server->requests[r];
  TF_Tensor** outputs = calloc(request->num_outputs, sizeof(TF_Tensor*));
  TF_Status* status = TF_NewStatus();
  TF_SessionRun(server->session, NULL, request->inputs, request->values,
                request->num_inputs, request->outputs, outputs,
                request->num_outputs, NULL, 0, NULL, status);
  Check(status);
  TF_DeleteStatus(status);
  return outputs;
}

static void FreeOutputs(TF_Tensor** outputs, int count) {
  for (int i = 0; i < count; ++i) TF_DeleteTensor(outputs[i]);
  free(outputs);
}

static int SameBits(TF_Tensor** a, TF_Tensor** b, int count) {
  for (int i = 0; i < count; ++i) {
    const size_t bytes = TF_TensorByteSize(a[i]);
    if (bytes != TF_TensorByteSize(b[i]) ||
        memcmp(TF_TensorData(a[i]), TF_TensorData(b[i]), bytes) != 0) {
      return 0;
    }
  }
  return 1;
}

static void* RunMany(void* argument) {
  Server* server = argument;
  for (int i; (i = atomic_fetch_add(&server->next, 1)) < server->runs;) {
    const int r = i % server->num_requests;
    const int count = server->requests[r].num_outputs;
    TF_Tensor** outputs = Run(server, r);
    if (!SameBits(outputs, server->expected[r], count)) {
      atomic_fetch_add(&server->wrong, 1);
    }
    FreeOutputs(outputs, count);
  }
  return NULL;
}

static void WriteOutputs(const Server* server, const char* path) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  for (int r = 0; r < server->num_requests; ++r) {
    for (int i = 0; i < server->requests[r].num_outputs; ++i) {
      fwrite(TF_TensorData(server->expected[r][i]), 1,
             TF_TensorByteSize(server->expected[r][i]), file);
    }
  }
  if (fclose(file) != 0) {
    perror(path);
    exit(1);
  }
}

int main(int argc, char** argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: load_model_c MODEL PLUGIN THREADS RUNS OUTPUTS\n");
    return 2;
  }
  const char* model = argv[1];
  const int num_threads = atoi(argv[3]);
  TF_Status* status = TF_NewStatus();
  TF_Library* plugin = NULL;
  if (argv[2][0] != '\0') {
    plugin = TF_LoadLibrary(argv[2], status);
    Check(status);
  }

  double start = Milliseconds();
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Graph* graph = TF_NewGraph();
  TF_Buffer* meta_graph_def = TF_NewBuffer();
  const char* const tags[] = {"serve"};
  Server server = {0};
  server.runs = atoi(argv[4]);
  server.session = TF_LoadSessionFromSavedModel(options, NULL, model, tags, 1,
                                                graph, meta_graph_def, status);
  Check(status);
  printf("loaded in %.0f ms\n", Milliseconds() - start);

  server.requests = TF_ReadWarmupRequests(model, meta_graph_def, graph,
                                          &server.num_requests, status);
  Check(status);
  if (server.num_requests == 0) {
    fprintf(stderr, "%s has no warm-up requests to send\n", model);
    return 1;
  }
  server.expected = calloc(server.num_requests, sizeof(TF_Tensor**));
  for (int r = 0; r < server.num_requests; ++r) {
    start = Milliseconds();
    server.expected[r] = Run(&server, r);
    printf("warm-up request %d: %.1f ms\n", r + 1, Milliseconds() - start);
  }

  pthread_t* threads = calloc(num_threads, sizeof(pthread_t));
  start = Milliseconds();
  for (int t = 0; t < num_threads; ++t) {
    if (pthread_create(&threads[t], NULL, RunMany, &server) != 0) {
      fprintf(stderr, "load_model_c: no more than %d threads\n", t);
      return 1;
    }
  }
  for (int t = 0; t < num_threads; ++t) pthread_join(threads[t], NULL);
  printf("%d runs in %d threads: %.1f per second, %d differ\n", server.runs,
         num_threads, server.runs / (Milliseconds() - start) * 1e3,
         atomic_load(&server.wrong));
  WriteOutputs(&server, argv[5]);

  free(threads);
  for (int r = 0; r < server.num_requests; ++r) {
    FreeOutputs(server.expected[r], server.requests[r].num_outputs);
  }
  free(server.expected);
  TF_FreeWarmupRequests(server.requests, server.num_requests);
  TF_CloseSession(server.session, status);
  TF_DeleteSession(server.session, status);
  TF_DeleteBuffer(meta_graph_def);
  TF_DeleteGraph(graph);
  TF_DeleteSessionOptions(options);
  if (plugin != NULL) TF_DeleteLibraryHandle(plugin);
  TF_DeleteStatus(status);
  return atomic_load(&server.wrong) == 0 ? 0 : 1;
}
