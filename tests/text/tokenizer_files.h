/* Small tokenizers as JSON (with ' in place of ", and byte 1 in place of '), and texts with the
 * ids, ranges and decoded texts that the tokenizers package gave. */
#ifndef TOKENIZER_FILES_H
#define TOKENIZER_FILES_H

#include <cotangent/cotangent.h>

#include <string.h>

enum { MOST = 64 };

typedef struct {
    const char *text;
    int n;
    int64_t ids[MOST], offsets[2 * MOST];
    const char *decoded, *whole; /* without special tokens, and with them */
} text_case;

static const char bpe_json[] =
    "{'version':'1.0','truncation':null,'padding':null,'added_tokens':[{'id':0,'conte"
    "nt':'<s>','single_word':false,'lstrip':false,'rstrip':false,'normalized':false,'"
    "special':true},{'id':1,'content':'<mask>','single_word':false,'lstrip':true,'rst"
    "rip':true,'normalized':false,'special':true},{'id':60,'content':'wor','single_wo"
    "rd':true,'lstrip':false,'rstrip':false,'normalized':true,'special':false},{'id':"
    "61,'content':'lo w','single_word':false,'lstrip':false,'rstrip':false,'normalize"
    "d':false,'special':false}],'normalizer':null,'pre_tokenizer':{'type':'ByteLevel'"
    ",'add_prefix_space':false,'trim_offsets':true,'use_regex':true},'post_processor'"
    ":{'type':'Sequence','processors':[{'type':'ByteLevel','add_prefix_space':false,'"
    "trim_offsets':true,'use_regex':true},{'type':'TemplateProcessing','single':[{'Sp"
    "ecialToken':{'id':'<s>','type_id':0}},{'Sequence':{'id':'A','type_id':0}}],'pair"
    "':[{'Sequence':{'id':'A','type_id':0}},{'Sequence':{'id':'B','type_id':1}}],'spe"
    "cial_tokens':{'<s>':{'id':'<s>','ids':[0],'tokens':['<s>']}}}]},'decoder':{'type"
    "':'ByteLevel','add_prefix_space':false,'trim_offsets':true,'use_regex':true},'mo"
    "del':{'type':'BPE','dropout':null,'unk_token':null,'continuing_subword_prefix':n"
    "ull,'end_of_word_suffix':null,'fuse_unk':false,'byte_fallback':false,'ignore_mer"
    "ges':false,'vocab':{'<s>':0,'<mask>':1,'\xc4\x8a':2,'\xc4\xa0':3,'\x01':4,',':5,'.':6,'1':7,'"
    "A':8"
    ",'a':9,'b':10,'c':11,'d':12,'e':13,'h':14,'l':15,'o':16,'r':17,'w':18,'\xc2\xa9':19,'\xc5\x83'"
    ":20,'\xc2\xb8':21,'\xc2\xbd':22,'\xc2\xbf':23,'\xc3\x83':24,'\xc3\xa4':25,'\xc3\xaf':26,'he':"
    "27,'ll':28,'hell':29,'hello':"
    "30,'\xc4\xa0w':31,'or':32,'\xc4\xa0wor':33,'ld':34,'\xc4\xa0world':35},'merges':[['h','e'],['"
    "l','l'],"
    "['he','ll'],['hell','o'],['\xc4\xa0','w'],['o','r'],['\xc4\xa0w','or'],['l','d'],['"
    "\xc4\xa0wor','ld']"
    "]}}";

static const text_case bpe_cases[] = {
    {"", 1, {0}, {0, 0}, "", "<s>"},
    {"hello world",
     6,
     {0, 27, 15, 37, 32, 34},
     {0, 0, 0, 2, 2, 3, 3, 7, 7, 9, 9, 11},
     "hello world",
     "<s>hello world"},
    {"hello  world\x0a",
     5,
     {0, 30, 3, 35, 2},
     {0, 0, 0, 5, 6, 6, 7, 12, 12, 13},
     "hello  world\x0a",
     "<s>hello  world\x0a"},
    {" hello", 3, {0, 3, 30}, {0, 0, 1, 1, 1, 6}, " hello", "<s> hello"},
    {"a <mask>  b", 4, {0, 9, 1, 10}, {0, 0, 0, 1, 2, 8, 10, 11}, "ab", "<s>a<mask>b"},
    {"<s>hello", 3, {0, 0, 30}, {0, 0, 0, 3, 3, 8}, "hello", "<s><s>hello"},
    {"wor world awor wor.",
     10,
     {0, 36, 35, 3, 9, 18, 32, 3, 36, 6},
     {0, 0, 0, 3, 4, 9, 10, 10, 10, 11, 11, 12, 12, 14, 15, 15, 15, 18, 18, 19},
     "wor world awor wor.",
     "<s>wor world awor wor."},
    {"hello lo wor",
     5,
     {0, 30, 3, 37, 32},
     {0, 0, 0, 5, 6, 6, 6, 10, 10, 12},
     "hello lo wor",
     "<s>hello lo wor"},
    {"caf\xc3\xa9 \xe4\xb8\xad",
     9,
     {0, 11, 9, 24, 19, 3, 25, 21, 20},
     {0, 0, 0, 1, 1, 2, 2, 5, 3, 5, 6, 6, 6, 9, 6, 9, 6, 9},
     "ca\xc3\xa9 \xe4\xb8\xad",
     "<s>ca\xc3\xa9 \xe4\xb8\xad"},
    {"a\xff"
     "b\xe4\xb8"
     "c",
     10,
     {0, 9, 26, 23, 22, 10, 26, 23, 22, 11},
     {0, 0, 0, 1, 1, 2, 1, 2, 1, 2, 2, 3, 3, 5, 3, 5, 3, 5, 5, 6},
     "a\xef\xbf\xbd"
     "b\xef\xbf\xbd"
     "c",
     "<s>a\xef\xbf\xbd"
     "b\xef\xbf\xbd"
     "c"},
    {"<mask> <mask>", 3, {0, 1, 1}, {0, 0, 0, 6, 7, 13}, "", "<s><mask><mask>"},
    {"<mas", 2, {0, 9}, {0, 0, 1, 2}, "a", "<s>a"},
};

static const char llama_json[] =
    "{'version':'1.0','truncation':null,'padding':null,'added_tokens':[{'id':0,'conte"
    "nt':'<unk>','single_word':false,'lstrip':false,'rstrip':false,'normalized':false"
    ",'special':true},{'id':1,'content':'<s>','single_word':false,'lstrip':false,'rst"
    "rip':false,'normalized':false,'special':true}],'normalizer':{'type':'Sequence','"
    "normalizers':[{'type':'Prepend','prepend':'\xe2\x96\x81'},{'type':'Replace','pattern':{'Str"
    "ing':' '},'content':'\xe2\x96\x81'}]},'pre_tokenizer':null,'post_processor':{'type':'Templa"
    "teProcessing','single':[{'SpecialToken':{'id':'<s>','type_id':0}},{'Sequence':{'"
    "id':'A','type_id':0}}],'pair':[{'Sequence':{'id':'A','type_id':0}},{'Sequence':{"
    "'id':'B','type_id':1}}],'special_tokens':{'<s>':{'id':'<s>','ids':[1],'tokens':["
    "'<s>']}}},'decoder':{'type':'Sequence','decoders':[{'type':'Replace','pattern':{"
    "'String':'\xe2\x96\x81'},'content':' '},{'type':'ByteFallback'},{'type':'Fuse'},{'type':'St"
    "rip','content':' ','start':1,'stop':0}]},'model':{'type':'BPE','dropout':null,'u"
    "nk_token':'<unk>','continuing_subword_prefix':null,'end_of_word_suffix':null,'fu"
    "se_unk':true,'byte_fallback':true,'ignore_merges':false,'vocab':{'<unk>':0,'<s>'"
    ":1,'<0xC3>':2,'<0xA9>':3,'<0xE2>':4,'<0x82>':5,'<0xAC>':6,'a':7,'b':8,'\xe2\x96\x81':9,'"
    "\xe2\x96\x81"
    "a'"
    ":10,'ab':11},'merges':[['\xe2\x96\x81','a'],['a','b']]}}";

static const text_case llama_cases[] = {
    {"", 1, {1}, {0, 0}, "", "<s>"},
    {"ab a", 4, {1, 10, 8, 10}, {0, 0, 0, 1, 1, 2, 2, 4}, "ab a", "<s> ab a"},
    {" a", 3, {1, 9, 10}, {0, 0, 0, 1, 0, 2}, " a", "<s>  a"},
    {"\xc3\xa9", 4, {1, 9, 2, 3}, {0, 0, 0, 2, 0, 2, 0, 2}, "\xc3\xa9", "<s> \xc3\xa9"},
    {"\xe2\x82\xac\xe2\x82",
     6,
     {1, 9, 4, 5, 6, 0},
     {0, 0, 0, 3, 0, 3, 0, 3, 0, 3, 3, 5},
     "\xe2\x82\xac",
     "<s> \xe2\x82\xac<unk>"},
    {"a<s>a", 4, {1, 10, 1, 10}, {0, 0, 0, 1, 1, 4, 4, 5}, "a a", "<s> a<s> a"},
    {"z\xce\xbbz", 3, {1, 9, 0}, {0, 0, 0, 1, 0, 4}, "", "<s> <unk>"},
};

static const char bert_json[] =
    "{'version':'1.0','truncation':{'direction':'Right','max_length':2,'strategy':'Lo"
    "ngestFirst','stride':0},'padding':null,'added_tokens':[{'id':0,'content':'[UNK]'"
    ",'single_word':false,'lstrip':false,'rstrip':false,'normalized':false,'special':"
    "true},{'id':1,'content':'[CLS]','single_word':false,'lstrip':false,'rstrip':fals"
    "e,'normalized':false,'special':true},{'id':2,'content':'[SEP]','single_word':fal"
    "se,'lstrip':false,'rstrip':false,'normalized':false,'special':true}],'normalizer"
    "':{'type':'BertNormalizer','clean_text':true,'handle_chinese_chars':true,'strip_"
    "accents':null,'lowercase':true},'pre_tokenizer':{'type':'BertPreTokenizer'},'pos"
    "t_processor':{'type':'BertProcessing','sep':['[SEP]',2],'cls':['[CLS]',1]},'deco"
    "der':{'type':'WordPiece','prefix':'##','cleanup':true},'model':{'type':'WordPiec"
    "e','unk_token':'[UNK]','continuing_subword_prefix':'##','max_input_chars_per_wor"
    "d':100,'vocab':{'[UNK]':0,'[CLS]':1,'[SEP]':2,'the':3,'cafe':4,'##s':5,'un':6,'#"
    "#aff':7,'##able':8,'\xe4\xb8\xad':9,'.':10,',':11,'\x01':12,'s':13,'do':14,'not':15}}}";

static const text_case bert_cases[] = {
    {"", 2, {1, 2}, {0, 0, 0, 0}, "", "[CLS] [SEP]"},
    {"The caf\xc3\xa9s.",
     6,
     {1, 3, 4, 5, 10, 2},
     {0, 0, 0, 3, 4, 9, 9, 10, 10, 11, 0, 0},
     "the cafes.",
     "[CLS] the cafes. [SEP]"},
    {"unaffable, unaffabl",
     7,
     {1, 6, 7, 8, 11, 0, 2},
     {0, 0, 0, 2, 2, 5, 5, 9, 9, 10, 11, 19, 0, 0},
     "unaffable,",
     "[CLS] unaffable, [UNK] [SEP]"},
    {"a\xe4\xb8\xad[SEP]the",
     6,
     {1, 0, 9, 2, 3, 2},
     {0, 0, 0, 1, 1, 4, 4, 9, 9, 12, 0, 0},
     "\xe4\xb8\xad the",
     "[CLS] [UNK] \xe4\xb8\xad [SEP] the [SEP]"},
    {"do not 's",
     6,
     {1, 14, 15, 12, 13, 2},
     {0, 0, 0, 2, 3, 6, 7, 8, 8, 9, 0, 0},
     "do not ' s",
     "[CLS] do not ' s [SEP]"},
};

static const char unigram_json[] =
    "{'version':'1.0','truncation':null,'padding':null,'added_tokens':[{'id':0,'conte"
    "nt':'<s>','single_word':false,'lstrip':false,'rstrip':false,'normalized':false,'"
    "special':true},{'id':1,'content':'<pad>','single_word':false,'lstrip':false,'rst"
    "rip':false,'normalized':false,'special':true},{'id':2,'content':'</s>','single_w"
    "ord':false,'lstrip':false,'rstrip':false,'normalized':false,'special':true},{'id"
    "':3,'content':'<unk>','single_word':false,'lstrip':false,'rstrip':false,'normali"
    "zed':false,'special':true},{'id':24,'content':'<mask>','single_word':false,'lstr"
    "ip':true,'rstrip':false,'normalized':false,'special':true}],'normalizer':{'type'"
    ":'Sequence','normalizers':[{'type':'Precompiled','precompiled_charsmap':'AAQAAAA"
    "EAAAAAACAAgAAgAUAAIAJAACACgAAgAwAAIAOAACAEgAAgAAAAAAAAAAACikAAA00AAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAGGJAQAAAAAAY5kBAGKBAQBllAEAZIEBAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgRkCAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACVcQIAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAKS"
    "QAgAAAAAAAAAAAKm9AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAMI"
    "IAwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADMMAMAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAOC"
    "AAwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAABOAFhZAFBRUgAARABFAChjKQBLAA=='},{'type':'Replace','pattern':{'Regex':' {2,}'"
    "},'content':' '}]},'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'"
    "WhitespaceSplit'},{'type':'Metaspace','replacement':'\xe2\x96\x81','prepend_sche"
    "me':'always','split':true}]},'post_processor':{'type':'TemplateProcessing','sing"
    "le':[{'SpecialToken':{'id':'<s>','type_id':0}},{'Sequence':{'id':'A','type_id':0"
    "}},{'SpecialToken':{'id':'</s>','type_id':0}}],'pair':[{'Sequence':{'id':'A','ty"
    "pe_id':0}},{'Sequence':{'id':'B','type_id':1}}],'special_tokens':{'<s>':{'id':'<"
    "s>','ids':[0],'tokens':['<s>']},'</s>':{'id':'</s>','ids':[2],'tokens':['</s>']}"
    "}},'decoder':{'type':'Metaspace','replacement':'\xe2\x96\x81','prepend_scheme':'"
    "always','split':true},'model':{'type':'Unigram','unk_id':3,'vocab':[['<s>',0],['"
    "<pad>',0],['</s>',0],['<unk>',0],['\xe2\x96\x81',-2.5],['a',-4],['\xe2\x96\x81"
    "a',-3.25],['X',-5],['XY',-6],['\xe2\x96\x81XY',-5.5],['\xe2\x96\x81the',-3.5],['"
    "t',-5],['h',-5],['e',-4.5],['he',-6],['\xe2\x96\x81th',-8.25],['s',-4],['E',-5],"
    "['\xc3\xa9',-6],['E\xe2\x96\x81',-7],['(c)',-5.25],['R',-6],['PQ',-6.5],['\xe4"
    "\xb8\xad',-7],['<mask>',0]],'byte_fallback':false}}";

static const text_case unigram_cases[] = {
    {"", 2, {0, 2}, {0, 0, 0, 0}, "", "<s></s>"},
    {"the cats",
     6,
     {0, 10, 9, 11, 16, 2},
     {0, 0, 0, 3, 5, 6, 6, 7, 7, 8, 0, 0},
     "the XYts",
     "<s> the XYts</s>"},
    {"a  b",
     6,
     {0, 9, 4, 22, 21, 2},
     {0, 0, 0, 1, 3, 4, 3, 4, 3, 4, 0, 0},
     "XY PQR",
     "<s> XY PQR</s>"},
    {"a\xcc\x81 the", 4, {0, 9, 10, 2}, {0, 0, 0, 3, 4, 7, 0, 0}, "XY the", "<s> XY the</s>"},
    {"\xc3\xa9\xc3\xa9 e\xcc\x81x",
     8,
     {0, 4, 18, 18, 4, 17, 3, 2},
     {0, 0, 0, 2, 0, 2, 2, 4, 5, 6, 5, 6, 8, 9, 0, 0},
     "\xc3\xa9\xc3\xa9 E",
     "<s> \xc3\xa9\xc3\xa9 E<unk></s>"},
    {"<mask> a <mask>",
     5,
     {0, 24, 9, 24, 2},
     {0, 0, 0, 6, 7, 8, 8, 15, 0, 0},
     "XY",
     "<s><mask> XY<mask></s>"},
    {"x</s>y",
     7,
     {0, 4, 3, 2, 4, 3, 2},
     {0, 0, 0, 1, 0, 1, 1, 5, 5, 6, 5, 6, 0, 0},
     " ",
     "<s> <unk></s> <unk></s>"},
    {"ccc", 2, {0, 2}, {0, 0, 0, 0}, "", "<s></s>"},
    {"\xc2\xa9the \xe4\xb8\xad\xe4\xb8\xad\x0d\x0a"
     "d",
     10,
     {0, 4, 20, 11, 14, 4, 23, 23, 3, 2},
     {0, 0, 0, 2, 0, 2, 2, 3, 3, 5, 6, 9, 6, 9, 9, 12, 12, 15, 0, 0},
     "(c)the \xe4\xb8\xad\xe4\xb8\xad",
     "<s> (c)the \xe4\xb8\xad\xe4\xb8\xad<unk></s>"},
    {"\xe3\x80\x80"
     "a\xc2\xa0the\x09",
     4,
     {0, 9, 10, 2},
     {0, 0, 3, 4, 6, 9, 0, 0},
     "XY the",
     "<s> XY the</s>"},
    {"zzthezz a",
     8,
     {0, 4, 3, 11, 14, 3, 9, 2},
     {0, 0, 0, 1, 0, 2, 2, 3, 3, 5, 5, 7, 8, 9, 0, 0},
     "the XY",
     "<s> <unk>the<unk> XY</s>"},
    {"\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9 a",
     5,
     {0, 4, 3, 9, 2},
     {0, 0, 0, 4, 0, 11, 12, 13, 0, 0},
     " XY",
     "<s> <unk> XY</s>"},
    {"heheheXXY",
     8,
     {0, 4, 14, 14, 14, 7, 8, 2},
     {0, 0, 0, 1, 0, 2, 2, 4, 4, 6, 6, 7, 7, 9, 0, 0},
     "heheheXXY",
     "<s> heheheXXY</s>"},
};

/* A copy of a JSON text with " in place of ' and ' in place of byte 1. */
static inline char *unquoted(const char *json) {
    char *text = malloc(strlen(json) + 1);
    strcpy(text, json);
    for (char *at = text; *at; at++) *at = (char)(*at == '\'' ? '"' : *at == 1 ? '\'' : *at);
    return text;
}

#endif
