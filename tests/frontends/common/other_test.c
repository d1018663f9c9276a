// other_test.c -- files that no reader takes are named; what may be ONNX is not.
#include "frontends/common/other.h"
#include "test.h"

static Diag diag;

#define BYTES(text)                                                                                \
  { text, (int64_t)sizeof text - 1 }
static const struct {
  Str bytes;
  tenon_status status;
  const char *says;
} row[] = {
    {BYTES(""), TENON_EFORMAT, "empty"},
    {BYTES("\x89HDF\r\n\x1a\n...."), TENON_EUNSUPPORTED, "Keras"},
    {BYTES("\x80\2}q\0."), TENON_EUNSUPPORTED, "pickle"},
    {BYTES("{\"a\": 1}"), TENON_EFORMAT, "JSON"},
    {BYTES("  \n<!doctype html>"), TENON_EFORMAT, "web page"},
    {BYTES("version https://git-lfs.github.com/spec/v1"), TENON_EFORMAT, "git lfs pull"},
    {BYTES("gr\xc3\xbcn\n"), TENON_EFORMAT, "it looks like text"},
    {BYTES("\xff\xfe\xfd\xfc\xfb"), TENON_EFORMAT, "unknown format"},
    {BYTES("\x1a\x02xy"), TENON_EFORMAT, "no graph of ONNX"},
    // ir_version 8, then a graph: ONNX, whole and cut at its length, in it, and in a number
    {BYTES("\x08\x08\x3a\x02\x12\x00"), TENON_OK, ""},
    {BYTES("\x08\x08\x3a"), TENON_EFORMAT, "ends early (after 3 bytes)"},
    {BYTES("\x08\x08\x3a\x90\x4e\x12"), TENON_EFORMAT, "6 of about 10 k bytes"},
    {BYTES("\x08\x80"), TENON_EFORMAT, "cut off"},
    {BYTES("\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), TENON_EFORMAT, "ends early (after"},
    // a length of which even the number overflows
    {BYTES("\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), TENON_EFORMAT,
     "ends early"},
};

TEST(other_files_are_named) {
  for (size_t i = 0; i < ARRAY_LEN(row); i++) {
    diag_init(&diag);
    EXPECT_STATUS(other_refuse(row[i].bytes, &diag), row[i].status);
    EXPECT_CONTAINS(diag.text, row[i].says);
  }
}

TEST(other_archives_are_named) {
  static const Str cut = BYTES("PK\3\4\x14\0\0\0"), no_zip = BYTES("GGUF\3\0\0\0");
  diag_init(&diag);
  EXPECT_STATUS(other_refuse_cut_zip(cut, &diag), TENON_EFORMAT);
  EXPECT_CONTAINS(diag.text, "was the download cut off?");
  EXPECT_STATUS(other_refuse_cut_zip(no_zip, &diag), TENON_OK);
}
