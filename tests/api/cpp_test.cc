// cpp_test.cc -- tenon.hpp: what is right gives results, what is wrong throws, nothing leaks
// (AddressSanitizer).
//
//   cpp_test MODEL FOLDER      examples/digits/digits.onnx, a folder to write into
#include <tenon/tenon.hpp>

#include <cstdio>
#include <string>

static int passed, failed;

static void check(const char *what, bool good) {
  good ? passed++ : failed++;
  std::printf("%s %s\n", good ? "ok  " : "FAIL", what);
}

template <typename F>
static void throws(const char *what, tenon_status status, const std::string &part, F &&f) {
  try {
    f();
    check(what, false);
  } catch (const tenon::Error &error) {
    bool good =
        error.status() == status && std::string(error.what()).find(part) != std::string::npos;
    if (!good) std::printf("     status %d: %s\n", error.status(), error.what());
    check(what, good);
  }
}

static tenon::Tensor images(int64_t batch) {
  tenon::Tensor t = tenon::Tensor::zeros(TENON_DTYPE_F32, {batch, 8, 8});
  for (size_t i = 0; i < t.count(); i++) t.data<float>()[i] = static_cast<float>(i % 17);
  return t;
}

static void test_tensors() {
  std::vector<float> six{1, 2, 3, 4, 5, 6};
  tenon::Tensor view = tenon::Tensor::view(six, {2, 3}), copy = tenon::Tensor::copy(six, {3, 2});
  six[0] = 7;
  check("a view sees the caller's memory, a copy does not",
        view.data<float>()[0] == 7 && copy.data<float>()[0] == 1);
  tenon::Tensor moved = std::move(copy);
  check("a tensor is moved", moved.count() == 6 && moved.shape() == tenon::Shape({3, 2}) &&
                                 moved.dtype() == TENON_DTYPE_F32);
  throws("a shape of another size", TENON_EINVAL, "6 elements", [&] {
    tenon::Tensor::view(six, {2, 2});
  });
  throws("another element type", TENON_EINVAL, "is f32, not i64", [&] { moved.data<int64_t>(); });
  throws("a negative size", TENON_EINVAL, "shape",
         [&] { tenon::Tensor::zeros(TENON_DTYPE_F32, {-1}); });
  throws("too many dimensions", TENON_EINVAL, "dimensions",
         [&] { tenon::Tensor::zeros(TENON_DTYPE_F32, tenon::Shape(17, 1)); });
}

static void test_runs(const tenon::Model &model, const std::string &folder) {
  check("inputs", model.inputs().size() == 1 && model.inputs()[0].name == "image" &&
                      model.inputs()[0].symbols[0] == "batch");
  tenon::Program program = model.compile();
  tenon::Session session = program.session(1);
  std::vector<tenon::Tensor> all = session(images(3));
  std::vector<float> first = all[0].to_vector<float>();
  double sum = 0;
  for (float p : first) sum += p;
  check("ten probabilities an image",
        all[0].shape() == tenon::Shape({3, 10}) && sum > 2.99 && sum < 3.01);
  std::map<std::string, tenon::Tensor> named;
  named.emplace("image", images(3));
  check("by name, the same", session.run(named).at("probability").to_vector<float>() == first);
  throws("an input of another shape", TENON_EINVAL, "image", [&] {
    session(tenon::Tensor::zeros(TENON_DTYPE_F32, {3, 8, 9}));
  });
  check("a session works after an error", session(images(3))[0].to_vector<float>() == first);
  named.emplace("extra", images(1));
  throws("a name that the model has not", TENON_EINVAL, "'extra'", [&] { session.run(named); });
  named.clear();
  throws("a missing name", TENON_EINVAL, "'image'", [&] { session.run(named); });
  if (program.target() == "cpu") {
    program.save(folder + "/digits.tenon");
    check(
        "saved and loaded, the same",
        tenon::Program::load(folder + "/digits.tenon").session()(images(3))[0].to_vector<float>() ==
            first);
  }
}

static void test_compile(const tenon::Model &model) {
  tenon::CompileOptions options;
  options.dims["batch"] = 2;
  throws("a static size", TENON_EINVAL, "", [&] { model.compile(options).session()(images(3)); });
  options = {};
  options.target = "nowhere";
  throws("an unknown target", TENON_EINVAL, "nowhere", [&] { model.compile(options); });
  options = {};
  options.set["no_such_option"] = "1";
  throws("an unknown option", TENON_EINVAL, "no_such_option", [&] { model.compile(options); });
  options = {};
  options.progress = [](const tenon_progress &) { return false; };
  throws("progress that ends it", TENON_ECANCELLED, "", [&] { model.compile(options); });
  options.progress = [](const tenon_progress &) -> bool { throw std::out_of_range("mine"); };
  bool mine = false;
  try {
    model.compile(options);
  } catch (const std::out_of_range &) {
    mine = true;
  }
  check("an exception of the caller's own passes", mine);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  test_tensors();
  throws("a file that is not there", TENON_EIO, "nowhere.onnx",
         [] { tenon::Model::open("nowhere.onnx"); });
  tenon::Model model = tenon::Model::open(argv[1]);
  test_runs(model, argv[2]);
  test_compile(model);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed > 0;
}
