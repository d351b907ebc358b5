/* Logits of small models by transformers, which tests/golden/model_values.py wrote. In the texts '
 * stands for ". */
#ifndef MODEL_VALUES_H
#define MODEL_VALUES_H

#include <stdint.h>

enum { MODEL_VALUES = 8, MODEL_IDS = 9 };
static const int64_t model_ids[] = {3, 14, 15, 9, 26, 5, 30, 0, 7};
/* The text of a config.json, the number of the model's results for these ids, and the last of them.
 */
static const struct {
    const char *config;
    int64_t size;
    double value[MODEL_VALUES];
} model_values[] = {
    {"{'model_type': 'gpt2', 'architectures': ['GPT2LMHeadModel'], 'vocab_size': 31, 'n_embd': 1"
     "6, 'n_layer': 2, 'n_head': 4, 'n_positions': 32}",
     279,
     {0.5981053681, 2.460369272, 1.58622989, 0.6309956095, 1.580808037, 1.183726133, -0.2430310773,
      2.810633835}},
    {"{'model_type': 'gpt2', 'architectures': ['GPT2LMHeadModel'], 'vocab_size': 31, 'n_embd': 1"
     "6, 'n_layer': 2, 'n_head': 4, 'n_positions': 32, 'n_inner': 20, 'scale_attn_by_inverse_lay"
     "er_idx': true, 'activation_function': 'relu'}",
     279,
     {0.8790733573, 1.277729942, 1.010077224, -0.3156225665, 0.7251794696, -0.1779349491,
      -0.7575643434, 1.581874519}},
    {"{'model_type': 'gpt2', 'architectures': ['GPT2LMHeadModel'], 'vocab_size': 31, 'n_embd': 1"
     "6, 'n_layer': 2, 'n_head': 4, 'n_positions': 32, 'scale_attn_weights': false, 'activation_"
     "function': 'gelu'}",
     279,
     {0.633857269, 2.479910707, 1.628541976, 0.6316808174, 1.584111696, 1.225367861, -0.2280086725,
      2.845470456}},
    {"{'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'num_"
     "key_value_heads': 2}",
     279,
     {1.378989185, -0.1138188926, 0.2442747995, 0.5894061397, 1.249382723, 1.470627076, 1.905442515,
      1.173305209}},
    {"{'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'hidd"
     "en_act': 'quick_gelu'}",
     279,
     {1.517232903, -0.08848324193, 0.09398252313, 0.3966122743, 1.217128733, 1.417520495,
      1.491329037, 1.271846348}},
    {"{'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'num_"
     "key_value_heads': 2, 'tie_word_embeddings': true, 'attention_bias': true, 'mlp_bias': true"
     ", 'head_dim': 6, 'hidden_act': 'leaky_relu'}",
     279,
     {1.995799892, 1.822620017, 1.584872632, 1.593518684, 1.380212435, 2.044788939, 0.5289128049,
      1.506629858}},
    {"{'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 2, 'num_"
     "key_value_heads': 2, 'rope_theta': 5000.0, 'rope_scaling': {'type': 'linear', 'factor': 2."
     "0}}",
     279,
     {1.502851176, -0.09146946385, 0.08984703067, 0.4017956747, 1.214818686, 1.418873166,
      1.510231562, 1.258904401}},
    {"{'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 2, 'num_"
     "key_value_heads': 2, 'rope_theta': 100.0, 'rope_scaling': {'rope_type': 'llama3', 'factor'"
     ": 8.0, 'low_freq_factor': 1.5, 'high_freq_factor': 4.0, 'original_max_position_embeddings'"
     ": 32}}",
     279,
     {1.50319899, -0.08950487714, 0.09571832629, 0.4006569052, 1.214942179, 1.415599455,
      1.517086335, 1.265986732}},
    {"{'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 2, 'num_"
     "key_value_heads': 2, 'max_position_embeddings': 16, 'rope_parameters': {'rope_type': 'yarn"
     "', 'rope_theta': 100.0, 'factor': 4.0}}",
     279,
     {1.505078983, -0.08919668946, 0.09619190103, 0.4017721606, 1.218542015, 1.417332008,
      1.516847161, 1.261696512}},
    {"{'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 2, 'num_"
     "key_value_heads': 2, 'rope_parameters': {'rope_type': 'yarn', 'rope_theta': 1000.0, 'facto"
     "r': 4.0, 'attention_factor': 1.5, 'beta_fast': 5.0, 'beta_slow': 0.2, 'truncate': false, '"
     "original_max_position_embeddings': 16}}",
     279,
     {1.508470851, -0.0883259242, 0.09889747278, 0.4037243382, 1.226648696, 1.420628537,
      1.515167603, 1.252088436}},
    {"{'model_type': 'mistral', 'architectures': ['MistralForCausalLM'], 'vocab_size': 31, 'hidd"
     "en_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, '"
     "num_key_value_heads': 2, 'sliding_window': 4}",
     279,
     {1.392657204, -0.1262677747, 0.2170281986, 0.5970223493, 1.260000884, 1.481076313, 1.858333563,
      1.158106753}},
    {"{'model_type': 'qwen2', 'architectures': ['Qwen2ForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'num_"
     "key_value_heads': 2, 'sliding_window': 3, 'max_window_layers': 0}",
     279,
     {1.43071507, -0.1606366458, 0.292037584, 0.6009735819, 1.380016225, 1.416157001, 1.99853077,
      1.16279322}},
    {"{'model_type': 'qwen2', 'architectures': ['Qwen2ForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'num_"
     "key_value_heads': 2, 'use_sliding_window': true, 'sliding_window': 3, 'max_window_layers':"
     " 1}",
     279,
     {1.431635307, -0.1603705243, 0.2924424536, 0.5975698016, 1.383164872, 1.411837287, 1.993761624,
      1.170042357}},
    {"{'model_type': 'qwen3', 'architectures': ['Qwen3ForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'num_"
     "key_value_heads': 2, 'head_dim': 6, 'hidden_act': 'relu2'}",
     279,
     {1.528270539, -0.3533274351, 0.4223375486, 0.2878612114, 1.415282827, 1.182632834, 1.310521427,
      0.9513051793}},
    {"{'model_type': 'gemma3_text', 'architectures': ['Gemma3ForCausalLM'], 'vocab_size': 31, 'h"
     "idden_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 7, 'num_attention_heads': 4"
     ", 'num_key_value_heads': 2, 'head_dim': 6, 'sliding_window': 3, 'query_pre_attn_scalar': 1"
     "0, 'final_logit_softcapping': 5.0}",
     279,
     {4.265171235, 4.322367044, 3.281386882, 3.788309815, 4.347989027, 3.899385111, 3.44239326,
      3.883629922}},
    {"{'model_type': 'gemma3_text', 'architectures': ['Gemma3ForCausalLM'], 'vocab_size': 31, 'h"
     "idden_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4"
     ", 'num_key_value_heads': 2, 'head_dim': 6, 'sliding_window': 3, 'sliding_window_pattern': "
     "3, 'rope_theta': 300000.0, 'rope_local_base_freq': 50.0}",
     279,
     {5.848327073, 6.078124711, 3.304104999, 4.843452156, 6.336583046, 5.020592506, 4.448804383,
      4.561831536}},
    {"{'model_type': 'gemma3_text', 'architectures': ['Gemma3ForCausalLM'], 'vocab_size': 31, 'h"
     "idden_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 2, 'num_attention_heads': 2"
     ", 'num_key_value_heads': 2, 'head_dim': 8, 'sliding_window': 4, 'layer_types': ['full_atte"
     "ntion', 'sliding_attention'], 'rope_parameters': {'full_attention': {'rope_type': 'linear'"
     ", 'rope_theta': 30000.0, 'factor': 2.0}, 'sliding_attention': {'rope_type': 'default', 'ro"
     "pe_theta': 70.0}}}",
     279,
     {5.802272008, 5.929695823, 3.221716805, 5.049446024, 6.409946785, 4.58565879, 4.09041202,
      4.215922541}},
    {"{'model_type': 'gemma3_text', 'architectures': ['Gemma3TextModel'], 'vocab_size': 31, 'hid"
     "den_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 7, 'num_attention_heads': 4, "
     "'num_key_value_heads': 2, 'head_dim': 6, 'sliding_window': 5, 'use_bidirectional_attention"
     "': true}",
     144,
     {1.776748896, 1.12973702, 1.219509006, 0.7885262966, 0.8958829045, 1.056059361, 1.815593839,
      0.6827203631}},
    {"{'model_type': 'smollm3', 'architectures': ['SmolLM3ForCausalLM'], 'vocab_size': 31, 'hidd"
     "en_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 5, 'num_attention_heads': 2, '"
     "num_key_value_heads': 2}",
     279,
     {2.130621043, 2.095101815, 1.72749017, 1.575767658, 1.847206364, 1.969152047, 0.5783677819,
      1.623839789}},
    {"{'model_type': 'smollm3', 'architectures': ['SmolLM3ForCausalLM'], 'vocab_size': 31, 'hidd"
     "en_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, '"
     "num_key_value_heads': 2, 'no_rope_layers': [0, 1, 1], 'use_sliding_window': true, 'sliding"
     "_window': 3}",
     279,
     {2.210686564, 2.162021808, 1.983676129, 1.560665435, 2.192950659, 1.985481985, 0.4493013984,
      1.872024482}},
    {"{'model_type': 'olmo2', 'architectures': ['Olmo2ForCausalLM'], 'vocab_size': 31, 'hidden_s"
     "ize': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'num_"
     "key_value_heads': 2}",
     279,
     {1.335014198, -0.2700089787, -0.3240291134, 1.009122729, 0.3941718613, 1.678647039,
      0.6162688086, 0.145069517}},
    {"{'model_type': 'granite', 'architectures': ['GraniteForCausalLM'], 'vocab_size': 31, 'hidd"
     "en_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, '"
     "num_key_value_heads': 2, 'embedding_multiplier': 3, 'attention_multiplier': 0.2, 'residual"
     "_multiplier': 0.6, 'logits_scaling': 4, 'head_dim': 6, 'attention_bias': true}",
     279,
     {0.3619654247, -0.07105862217, 0.08785562771, 0.07193701462, 0.3176936704, 0.323696976,
      0.2886561473, 0.2208561891}},
    {"{'model_type': 'granitemoehybrid', 'architectures': ['GraniteMoeHybridForCausalLM'], 'voca"
     "b_size': 31, 'hidden_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_atte"
     "ntion_heads': 2, 'num_key_value_heads': 2, 'embedding_multiplier': 3, 'attention_multiplie"
     "r': 0.2, 'residual_multiplier': 0.6, 'logits_scaling': 4, 'layer_types': ['attention', 'at"
     "tention', 'attention'], 'num_local_experts': 0, 'shared_intermediate_size': 20, 'mamba_n_h"
     "eads': 4, 'position_embedding_type': 'rope'}",
     279,
     {0.3502888301, 0.000749148097, 0.03521851369, 0.07222379296, 0.2674715969, 0.3631252701,
      0.3288873301, 0.2885626062}},
    {"{'model_type': 'granitemoehybrid', 'architectures': ['GraniteMoeHybridForCausalLM'], 'voca"
     "b_size': 31, 'hidden_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_atte"
     "ntion_heads': 2, 'num_key_value_heads': 2, 'embedding_multiplier': 3, 'attention_multiplie"
     "r': 0.2, 'residual_multiplier': 0.6, 'logits_scaling': 4, 'layer_types': ['attention', 'at"
     "tention', 'attention'], 'num_local_experts': 0, 'shared_intermediate_size': 20, 'mamba_n_h"
     "eads': 4}",
     279,
     {0.3505242662, 0.001470347297, 0.03244257771, 0.0722201935, 0.2659775664, 0.3642729484,
      0.3245933494, 0.2881929581}},
    {"{'model_type': 'gpt_neox', 'architectures': ['GPTNeoXForCausalLM'], 'vocab_size': 31, 'hid"
     "den_size': 64, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, "
     "'rotary_emb_base': 2000.0}",
     279,
     {4.027251143, 0.5694984502, 0.2494505506, 3.170996876, -0.1558009057, 2.605183195,
      0.05563643667, 2.304745239}},
    {"{'model_type': 'gpt_neox', 'architectures': ['GPTNeoXForCausalLM'], 'vocab_size': 31, 'hid"
     "den_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 2, "
     "'use_parallel_residual': false, 'attention_bias': false, 'hidden_act': 'gelu_new', 'rotary"
     "_pct': 0.5, 'rotary_emb_base': 3000}",
     279,
     {0.3339754638, 1.04658068, 0.249922147, 0.08828105947, 1.006380904, 0.6729383428, 1.275615279,
      0.2790676833}},
    {"{'model_type': 'bert', 'architectures': ['BertModel'], 'vocab_size': 31, 'hidden_size': 16"
     ", 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'max_position"
     "_embeddings': 32, 'type_vocab_size': 3}",
     144,
     {0.4265988295, 0.5591599152, -0.2172553126, 0.8523819005, 0.6743623758, 0.466786877,
      1.158503873, 0.2913353487}},
    {"{'model_type': 'bert', 'architectures': ['BertForMaskedLM'], 'vocab_size': 31, 'hidden_siz"
     "e': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'max_po"
     "sition_embeddings': 32, 'type_vocab_size': 3}",
     279,
     {0.5930232361, 1.533946482, -0.3769050144, 0.03831476804, 0.6918713057, -0.2428771198,
      -0.4613092771, 1.045776056}},
    {"{'model_type': 'bert', 'architectures': ['BertForSequenceClassification'], 'vocab_size': 3"
     "1, 'hidden_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 3, 'num_attention_head"
     "s': 4, 'max_position_embeddings': 32, 'type_vocab_size': 3, 'id2label': {'0': '0', '1': '1"
     "', '2': '2', '3': '3', '4': '4'}}",
     5,
     {1.581331672, 1.302951733, -0.6124798803, 0.8905126245, 1.224604909}},
};

#endif
