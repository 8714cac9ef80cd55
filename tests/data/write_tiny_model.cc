// Writes one of the tiny test models: write_tiny_model --architecture qwen3 --out tiny.gguf
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "tests/data/tiny_model.h"

namespace {

// false: no weight type of that name.
bool FindWeightType(const std::string& name, tahmin::TensorType* type) {
  for (uint32_t number = 0; number < 64; ++number) {
    const tahmin::TensorTypeTraits* traits = tahmin::FindTensorType(number);
    if (traits == nullptr || !traits->is_weight || traits->name != name) continue;
    *type = traits->type;
    return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  tahmin::TinyModelOptions options;
  std::string out;
  std::string weight_type = "Q8_0";
  std::string embedding_type = "F32";
  bool untied = false;
  CLI::App app("Writes a tiny random model as GGUF");
  app.add_option("--out", out, "file to write")->required();
  app.add_option("--architecture", options.architecture)
      ->check(CLI::IsMember({"llama", "qwen2", "qwen3"}));
  app.add_option("--num-layers", options.num_layers);
  app.add_option("--embedding-length", options.embedding_length);
  app.add_option("--feed-forward-length", options.feed_forward_length);
  app.add_option("--num-heads", options.num_heads);
  app.add_option("--num-kv-heads", options.num_kv_heads);
  app.add_option("--head-dim", options.head_dim);
  app.add_option("--vocab-size", options.vocab_size)->check(CLI::Range(300, 1 << 20));
  app.add_option("--context-length", options.context_length);
  app.add_option("--weight-type", weight_type, "F32, F16, BF16, Q4_0, ..., Q6_K");
  app.add_option("--embedding-type", embedding_type);
  app.add_flag("--untied", untied, "write output.weight");
  app.add_flag("--qkv-bias", options.qkv_bias);
  app.add_option("--sliding-window", options.sliding_window);
  app.add_option("--rope-scaling", options.rope_scaling)->check(CLI::IsMember({"linear", "yarn"}));
  app.add_option("--rope-scale-factor", options.rope_scale_factor);
  app.add_flag("--rope-freqs", options.rope_freqs, "write rope_freqs.weight (llama3 scaling)");
  app.add_option("--logit-scale", options.logit_scale);
  app.add_option("--seed", options.seed);
  CLI11_PARSE(app, argc, argv);
  options.tied_embedding = !untied;
  if (!FindWeightType(weight_type, &options.weight_type) ||
      !FindWeightType(embedding_type, &options.embedding_type)) {
    std::fprintf(stderr, "write_tiny_model: unknown weight type %s or %s\n", weight_type.c_str(),
                 embedding_type.c_str());
    return 2;
  }
  tahmin::WriteTinyModel(options, out);
  return 0;
}
