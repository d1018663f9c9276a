// custom_op.c -- an operator of one's own: its shape rule, its callback, and a model that uses it.
//
//   cc custom_op.c $(pkg-config --cflags --libs tenon) -o custom_op && ./custom_op
//
// com.example.Ramp takes a vector and multiplies each element with a power of its position: y[i] =
// x[i] * i^power.  In an ONNX file it would be a node of domain "com.example" and type "Ramp" with
// an attribute "power"; here the model is written in Tenon's text form, to have all in one file.
#include <tenon/tenon.h>

#include <math.h>
#include <stdio.h>

// While the model is opened: the output is like the input, symbolic size included.
static tenon_status ramp_shape(tenon_op_call *call, void *user) {
  (void)user;
  tenon_tensor x;
  if (tenon_op_input(call, 0, &x)) return TENON_EINVAL;
  if (x.dtype != TENON_DTYPE_F32) return tenon_op_fail(call, TENON_EINVAL, "x must be f32");
  return tenon_op_shape_like(call, 0, 0);
}

// While it runs.
static tenon_status ramp_run(tenon_op_call *call, void *user) {
  tenon_tensor x;
  double power = *(const double *)user;  // the default
  if (tenon_op_input(call, 0, &x)) return TENON_EINVAL;
  if (x.rank != 1) return tenon_op_fail(call, TENON_EINVAL, "x must be a vector");
  tenon_op_attr_floats(call, "power", &power, 1);
  float *y = tenon_op_output(call, 0, TENON_DTYPE_F32, x.rank, x.shape);
  if (!y) return TENON_ENOMEM;
  for (int64_t i = 0; i < x.shape[0]; i++)
    y[i] = (float)(((const float *)x.data)[i] * pow((double)i, power));
  return TENON_OK;
}

static const char model_text[] =
    "graph @\"example\"(%x: f32[n]) -> (y: f32[n]) {\n"
    "  %h = foreign(%x) op=\"com.example.Ramp\" keys=[\"power\"] values=[\"0.5\"]\n"
    "  %y = neg(%h)\n"
    "  return %y\n"
    "}\n";

int main(void) {
  static tenon_error error;
  double default_power = 1;
  tenon_op ramp = {.struct_size = sizeof ramp,
                   .name = "com.example.Ramp",
                   .shape = ramp_shape,
                   .run = ramp_run,
                   .user = &default_power};
  tenon_open_options options = {.struct_size = sizeof options, .ops = &ramp, .nops = 1};
  tenon_model *m;
  if (tenon_model_open_memory(model_text, sizeof model_text - 1, &options, &m, &error)) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  float x[5] = {1, 1, 1, 1, 1}, y[5];
  tenon_tensor in = {
      .data = x, .dtype = TENON_DTYPE_F32, .rank = 1, .shape = {5}, .bytes = sizeof x};
  tenon_tensor out = {.data = y, .bytes = sizeof y};
  tenon_status status = tenon_run(m, &in, 1, &out, 1, NULL, &error);
  if (status)
    fprintf(stderr, "%s\n", error.message);
  else
    for (int i = 0; i < 5; i++) printf("%g\n", (double)y[i]);
  tenon_model_close(m);
  return status != TENON_OK;
}
