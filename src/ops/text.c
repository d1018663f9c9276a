// text.c -- records of the text ops.
#include "eval/text.h"
#include "ir/opinfo.h"

static tenon_status infer_string_concat(Infer *in) {
  TRY(infer_need(in, 0, DT_STRING));
  TRY(infer_need(in, 1, DT_STRING));
  return infer_elementwise(in);
}

static tenon_status infer_string_split(Infer *in) {
  TRY(infer_need(in, 0, DT_STRING));
  const Type *x = infer_type(in, 0);
  infer_set_type(in, 1, type_with_dtype(in->g, x, DT_I64));
  if (x->rank < 0) {
    infer_set_unranked(in, 0, DT_STRING);
    return TENON_OK;
  }
  if (x->rank == MAX_RANK)
    return infer_fail(in, TENON_EUNSUPPORTED, "rank %d leaves no axis for the parts", x->rank);
  Dim dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  dims[x->rank] = ie_fresh(&in->g->dims, "parts");
  return infer_set(in, 0, DT_STRING, x->rank + 1, dims);
}

static tenon_status infer_string_normalizer(Infer *in) {
  const string_normalizer_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  TRY(infer_need(in, 0, DT_STRING));
  const Type *x = infer_type(in, 0);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, DT_STRING);
    return TENON_OK;
  }
  if (x->rank < 1 || x->rank > 2 ||
      (x->rank == 2 && ie_is_const(x->dims[0]) && !ie_is(x->dims[0], 1)))
    return infer_fail(in, TENON_EINVAL, "x must be [C] or [1, C], not of rank %d%s", x->rank,
                      x->rank == 2 ? " with several rows" : "");
  Dim n = x->dims[x->rank - 1];
  Dim dims[2] = {p->one, at->stopwords.n ? ie_fresh(p, "words") : ie_max(p, n, p->one)};
  return infer_set(in, 0, DT_STRING, x->rank, x->rank == 2 ? dims : dims + 1);
}

static tenon_status infer_regex_full_match(Infer *in) {
  const regex_full_match_attrs *at = in->attrs;
  TRY(infer_need(in, 0, DT_STRING));
  ArenaMark m = arena_mark(&in->g->scratch);
  const char *why;
  tenon_status s = TENON_OK;
  if (!regex_compile(&in->g->scratch, at->pattern, &why))
    s = infer_fail(in, TENON_EINVAL, "pattern '%.*s': %s", STR_ARG(at->pattern), why);
  arena_reset(&in->g->scratch, m);
  infer_set_type(in, 0, type_with_dtype(in->g, infer_type(in, 0), DT_BOOL));
  return s;
}

static tenon_status infer_tf_idf_vectorizer(Infer *in) {
  const tf_idf_vectorizer_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  const char *why;
  int64_t columns = tf_idf_columns(at, &why);
  if (columns < 0) return infer_fail(in, TENON_EINVAL, "%s", why);
  bool text = at->pool_strings.n > 0;
  if (x->dtype && (text ? x->dtype != DT_STRING : !dtype_is_int(x->dtype)))
    return infer_fail(in, TENON_EINVAL, "x is %s, the pool holds %s", dtype_name(x->dtype),
                      text ? "strings" : "integers");
  if (x->rank > 2) return infer_fail(in, TENON_EINVAL, "x has rank %d, must have 1 or 2", x->rank);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, DT_F32);
    return TENON_OK;
  }
  Dim dims[2] = {x->rank == 2 ? x->dims[0] : NULL, ie_const(&in->g->dims, columns)};
  return infer_set(in, 0, DT_F32, x->rank == 2 ? 2 : 1, x->rank == 2 ? dims : dims + 1);
}

static tenon_status infer_tokenizer(Infer *in) {
  TRY(infer_need(in, 0, DT_STRING));
  const Type *x = infer_type(in, 0);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, DT_STRING);
    return TENON_OK;
  }
  if (x->rank < 1 || x->rank > 2)
    return infer_fail(in, TENON_EINVAL, "x has rank %d, must have 1 or 2", x->rank);
  Dim dims[3] = {x->dims[0], x->dims[x->rank - 1], NULL};
  dims[x->rank] = ie_fresh(&in->g->dims, "tokens");
  return infer_set(in, 0, DT_STRING, x->rank + 1, dims);
}

ATTR_TABLE(string_split, STRING_SPLIT_ATTRS);
ATTR_TABLE(string_normalizer, STRING_NORMALIZER_ATTRS);
ATTR_TABLE(regex_full_match, REGEX_FULL_MATCH_ATTRS);
ATTR_TABLE(tf_idf_vectorizer, TF_IDF_VECTORIZER_ATTRS);
ATTR_TABLE(tokenizer, TOKENIZER_ATTRS);

const OpInfo op_string_concat = {
    .name = "string_concat",
    .doc = "strings of x followed by those of y",
    .onnx = "StringConcat",
    .onnx_since = 20,
    .operands = "x y",
    .results = "z",
    .dtypes = "string",
    .arity = 2,
    .nres = 1,
    .flags = OPF_ELEMENTWISE | OPF_HOST,
    .infer = infer_string_concat,
    .eval = eval_string_concat,
    SAMPLES("(string[2,3], string[3])", "(string[], string[])", "(string[0], string[1])"),
};
const OpInfo op_string_split = {
    .name = "string_split",
    .doc = "parts of each string, padded with empty ones, and their number",
    .onnx = "StringSplit",
    .onnx_since = 20,
    .operands = "x",
    .results = "parts counts",
    .dtypes = "string",
    .arity = 1,
    .nres = 2,
    .flags = OPF_HOST,
    OP_ATTRS(string_split),
    .infer = infer_string_split,
    .eval = eval_string_split,
    SAMPLES("(string[3])", "(string[2,2]) delimiter=\"-\" maxsplit=1", "(string[0])", "(string[])"),
};
const OpInfo op_string_normalizer = {
    .name = "string_normalizer",
    .doc = "strings without the stop words, in one case",
    .onnx = "StringNormalizer",
    .onnx_since = 10,
    .operands = "x",
    .results = "y",
    .dtypes = "string",
    .arity = 1,
    .nres = 1,
    .flags = OPF_HOST,
    OP_ATTRS(string_normalizer),
    .infer = infer_string_normalizer,
    .eval = eval_string_normalizer,
    SAMPLES("(string[4]) case_change_action=UPPER", "(string[1,3]) stopwords=[\"monday\"]",
            "(string[0])", "(string[n]) case_change_action=LOWER"),
};
const OpInfo op_regex_full_match = {
    .name = "regex_full_match",
    .doc = "whether the pattern matches the whole string",
    .onnx = "RegexFullMatch",
    .onnx_since = 20,
    .operands = "x",
    .results = "y",
    .dtypes = "string",
    .arity = 1,
    .nres = 1,
    .flags = OPF_HOST,
    OP_ATTRS(regex_full_match),
    .infer = infer_regex_full_match,
    .eval = eval_regex_full_match,
    SAMPLES("(string[2,3]) pattern=\"[a-z]+\"", "(string[])", "(string[0]) pattern=\"(a|b)*c?\""),
};
const OpInfo op_tf_idf_vectorizer = {
    .name = "tf_idf_vectorizer",
    .doc = "counts of the pool's n-grams in each row, weighted",
    .onnx = "TfIdfVectorizer",
    .onnx_since = 9,
    .operands = "x",
    .results = "y",
    .dtypes = "int string",
    .arity = 1,
    .nres = 1,
    .flags = OPF_HOST,
    OP_ATTRS(tf_idf_vectorizer),
    .infer = infer_tf_idf_vectorizer,
    .eval = eval_tf_idf_vectorizer,
    SAMPLES(
        "(i32[2,6]) max_gram_length=2 ngram_counts=[0, 4] ngram_indexes=[0, 1, 2, 3, 4, 5, 6] "
        "pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7]",
        "(string[4]) mode=TFIDF ngram_counts=[0] ngram_indexes=[1, 0] pool_strings=[\"a\", \"b\"] "
        "weights=[2, 0.5]",
        "(i64[n,0]) ngram_counts=[0] ngram_indexes=[0] pool_int64s=[7] mode=IDF"),
};
const OpInfo op_tokenizer = {
    .name = "tokenizer",
    .doc = "tokens of each string, in rows of one length",
    .onnx = "com.microsoft.Tokenizer",
    .onnx_since = 1,
    .operands = "x",
    .results = "tokens",
    .dtypes = "string",
    .arity = 1,
    .nres = 1,
    .flags = OPF_HOST,
    OP_ATTRS(tokenizer),
    .infer = infer_tokenizer,
    .eval = eval_tokenizer,
    SAMPLES("(string[3]) tokenexp=\"[a-z]+\" pad_value=\"#\"",
            "(string[2,2]) separators=[\"o\", \"[0-9]\"] mincharnum=2 mark=true",
            "(string[3]) separators=[\"\"] mark=true", "(string[0]) tokenexp=\"a\"",
            "(string[2]) tokenexp=\"q?\""),
};
