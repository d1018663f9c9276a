// pb.h -- protobuf messages written as text, so that a test can say a sound or a broken model in
// one line.
//
//   8:{2:17}            field 8, a message with field 2 = 17
//   1:-1                varint
//   4:'Add'             string; \' and \\ inside
//   9:<0000803f>        bytes in hex
//   4:~1.5              32-bit float
//   <ff00>              raw bytes without a field
// White space separates; everything else is a failure of the test.
#ifndef TENON_TESTS_SUPPORT_PB_H
#define TENON_TESTS_SUPPORT_PB_H

#include "base/base.h"

void pb_encode(StrBuf *out, const char *text);

// ---- ONNX in these terms ----
#define PB_IN(name)               "1:'" name "' " /* of a node */
#define PB_OUT(name)              "2:'" name "' "
#define PB_NODE(op, rest)         "1:{" rest "4:'" op "'} " /* of a graph */
#define PB_NAMED(op, n, rest)     "1:{" rest "3:'" n "' 4:'" op "'} "
#define PB_INT(name, v)           "5:{1:'" name "' 3:" #v " 20:2} " /* attributes of a node */
#define PB_FLOAT(name, v)         "5:{1:'" name "' 2:~" #v " 20:1} "
#define PB_STR(name, v)           "5:{1:'" name "' 4:'" v "' 20:3} "
#define PB_INTS(name, items)      "5:{1:'" name "' " items "20:7} " /* items: PB_I(1) PB_I(2) */
#define PB_I(v)                   "8:" #v " "
#define PB_TENSOR_ATTR(name, t)   "5:{1:'" name "' 5:{" t "} 20:4} "
#define PB_GRAPH_ATTR(name, g)    "5:{1:'" name "' 6:{" g "2:'sub'} 20:5} "
#define PB_DIM(v)                 "1:{1:" #v "} "
#define PB_SYM(name)              "1:{2:'" name "'} "
#define PB_TYPE(dt, dims)         "2:{1:{1:" #dt " 2:{" dims "}}} "
#define PB_INPUT(name, dt, dims)  "11:{1:'" name "' " PB_TYPE(dt, dims) "} "
#define PB_OUTPUT(name, dt, dims) "12:{1:'" name "' " PB_TYPE(dt, dims) "} "
#define PB_OUTPUT_ANY(name)       "12:{1:'" name "'} "
#define PB_INIT(name, dt, dims, data)                                                              \
  "5:{" dims "2:" #dt " 8:'" name "' " data "} " /* dims: PB_D(2) PB_D(3) */
#define PB_D(v)                   "1:" #v " "
#define PB_RAW(hex)               "9:<" hex "> "
#define PB_I64(v)                 "7:" #v " "
#define PB_MODEL(graph)           "1:8 8:{2:17} 7:{" graph "2:'g'} "
#define PB_MODEL_AT(opset, graph) "1:8 8:{2:" #opset "} 7:{" graph "2:'g'} "

#endif
