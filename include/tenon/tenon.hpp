// tenon.hpp -- tenon.h for C++17: handles that free themselves, errors that are exceptions.
//
//   tenon::Session session = tenon::Model::open("model.onnx").compile().session();
//   std::vector<tenon::Tensor> out = session.run({tenon::Tensor::copy(pixels, {1, 3, 224, 224})});
//   const float *scores = out[0].data<float>();
//
// Header only: link with -ltenon.  Every failure of the library is thrown as tenon::Error.  Objects
// are moved, not copied.  What tenon.h says of threads and of memory that must stay holds here too.
// Whatever this header lacks (sequences and maps, GPU streams, custom operators) is called through
// get(), which gives the handle of tenon.h.
#ifndef TENON_TENON_HPP
#define TENON_TENON_HPP

#include <tenon/tenon.h>

#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class Error : public std::runtime_error {
public:
  Error(tenon_status status, const std::string &message)
      : std::runtime_error(message.empty() ? tenon_status_name(status) : message), status_(status) {
  }
  tenon_status status() const noexcept { return status_; }

private:
  tenon_status status_;
};

namespace detail {

// Calls f(&error) and throws what it reports.  A tenon_error is too large for some threads' stacks.
template <typename F> void check(F &&f) {
  std::unique_ptr<tenon_error> error(new tenon_error());
  tenon_status status = f(error.get());
  if (status != TENON_OK) throw Error(status, error->message);
}

template <typename T, void (*release)(T *)> struct Release {
  void operator()(T *p) const noexcept { release(p); }
};
template <typename T, void (*release)(T *)> using Handle = std::unique_ptr<T, Release<T, release>>;

template <typename T> struct Dtype;
template <> struct Dtype<float> { static constexpr tenon_dtype value = TENON_DTYPE_F32; };
template <> struct Dtype<double> { static constexpr tenon_dtype value = TENON_DTYPE_F64; };
template <> struct Dtype<int8_t> { static constexpr tenon_dtype value = TENON_DTYPE_I8; };
template <> struct Dtype<uint8_t> { static constexpr tenon_dtype value = TENON_DTYPE_U8; };
template <> struct Dtype<int16_t> { static constexpr tenon_dtype value = TENON_DTYPE_I16; };
template <> struct Dtype<uint16_t> { static constexpr tenon_dtype value = TENON_DTYPE_U16; };
template <> struct Dtype<int32_t> { static constexpr tenon_dtype value = TENON_DTYPE_I32; };
template <> struct Dtype<uint32_t> { static constexpr tenon_dtype value = TENON_DTYPE_U32; };
template <> struct Dtype<int64_t> { static constexpr tenon_dtype value = TENON_DTYPE_I64; };
template <> struct Dtype<uint64_t> { static constexpr tenon_dtype value = TENON_DTYPE_U64; };
template <> struct Dtype<bool> { static constexpr tenon_dtype value = TENON_DTYPE_BOOL; };

}  // namespace detail

using Shape = std::vector<int64_t>;

// A dense row-major tensor: a view of the caller's memory, or the owner of its own.
class Tensor {
public:
  Tensor() = default;
  ~Tensor() { tenon_tensor_release(&raw_); }
  Tensor(Tensor &&other) noexcept { *this = std::move(other); }
  Tensor &operator=(Tensor &&other) noexcept {
    std::swap(raw_, other.raw_);
    std::swap(memory_, other.memory_);
    return *this;
  }

  // Zeros, of any dtype but strings.
  static Tensor zeros(tenon_dtype dtype, const Shape &shape) {
    Tensor t = described(dtype, shape);
    if (dtype == TENON_DTYPE_STRING) throw Error(TENON_EINVAL, "Tensor::zeros: no strings");
    t.memory_ = std::shared_ptr<char>(new char[static_cast<size_t>(t.raw_.bytes) + 1](),
                                      std::default_delete<char[]>());
    t.raw_.data = t.memory_.get();
    return t;
  }

  // A view of `count` elements, which must stay as long as the tensor is used.
  template <typename T> static Tensor view(T *data, size_t count, const Shape &shape) {
    Tensor t = described(detail::Dtype<std::remove_const_t<T>>::value, shape);
    if (static_cast<uint64_t>(t.raw_.bytes) != static_cast<uint64_t>(count) * sizeof(T))
      throw Error(TENON_EINVAL, "Tensor: " + std::to_string(count) +
                                    " elements, but its shape has " + std::to_string(t.count()));
    t.raw_.data = const_cast<std::remove_const_t<T> *>(data);
    return t;
  }
  template <typename T> static Tensor view(std::vector<T> &data, const Shape &shape) {
    return view(data.data(), data.size(), shape);
  }

  template <typename T> static Tensor copy(const std::vector<T> &data, const Shape &shape) {
    Tensor from = view(data.data(), data.size(), shape);
    Tensor t = zeros(from.dtype(), shape);
    if (!data.empty()) std::memcpy(t.raw_.data, data.data(), data.size() * sizeof(T));
    return t;
  }

  tenon_dtype dtype() const noexcept { return raw_.dtype; }
  Shape shape() const { return Shape(raw_.shape, raw_.shape + raw_.rank); }
  size_t count() const noexcept {
    size_t n = 1;
    for (int32_t i = 0; i < raw_.rank; i++) n *= static_cast<size_t>(raw_.shape[i]);
    return n;
  }

  // The elements; another type than the tensor's is an error.
  template <typename T> T *data() {
    return static_cast<T *>(typed(detail::Dtype<std::remove_const_t<T>>::value));
  }
  template <typename T> const T *data() const {
    return static_cast<const T *>(typed(detail::Dtype<std::remove_const_t<T>>::value));
  }
  template <typename T> std::vector<T> to_vector() const {
    const T *first = data<T>();
    return std::vector<T>(first, first + count());
  }

  const tenon_tensor &get() const noexcept { return raw_; }
  // Takes what the library allocated.
  static Tensor adopt(tenon_tensor &raw) noexcept {
    Tensor t;
    std::swap(t.raw_, raw);
    return t;
  }

private:
  static Tensor described(tenon_dtype dtype, const Shape &shape) {
    if (shape.size() > TENON_MAX_RANK) throw Error(TENON_EINVAL, "Tensor: too many dimensions");
    Tensor t;
    t.raw_.dtype = dtype;
    t.raw_.rank = static_cast<int32_t>(shape.size());
    for (size_t i = 0; i < shape.size(); i++) t.raw_.shape[i] = shape[i];
    t.raw_.bytes = tenon_tensor_size(dtype, t.raw_.rank, t.raw_.shape);
    if (t.raw_.bytes < 0) throw Error(TENON_EINVAL, "Tensor: no such shape");
    return t;
  }
  void *typed(tenon_dtype dtype) const {
    if (dtype != raw_.dtype)
      throw Error(TENON_EINVAL, std::string("Tensor::data: the tensor is ") +
                                    tenon_dtype_name(raw_.dtype) + ", not " +
                                    tenon_dtype_name(dtype));
    return raw_.data;
  }

  tenon_tensor raw_{};
  std::shared_ptr<char> memory_;  // of zeros and copy
};

// An input or output of a model.
struct ValueInfo {
  std::string name, type;  // "image", "f32[batch, 3, 224, 224]"
  tenon_kind kind;
  tenon_dtype dtype;
  int32_t rank;  // -1: not known
  Shape shape;   // -1 for a symbolic size, whose text is in `symbols`
  std::vector<std::string> symbols;

  explicit ValueInfo(const tenon_value_info &info)
      : name(info.name), type(info.type), kind(info.kind), dtype(info.dtype), rank(info.rank) {
    for (int32_t i = 0; i < rank; i++) {
      shape.push_back(info.shape[i]);
      symbols.emplace_back(info.symbol[i] ? info.symbol[i] : "");
    }
  }
};

struct CompileOptions {
  std::string target;                      // "cpu", "cuda", ...; "": the fastest available
  std::map<std::string, int64_t> dims;     // symbolic dimensions to make static
  std::map<std::string, std::string> set;  // options by name, as on the command line
  // Called before each piece of the work, perhaps on another thread; false ends the compilation.
  std::function<bool(const tenon_progress &)> progress;
};

class Session {
public:
  std::vector<ValueInfo> inputs() const {
    return infos(tenon_program_input_count, tenon_program_input);
  }
  std::vector<ValueInfo> outputs() const {
    return infos(tenon_program_output_count, tenon_program_output);
  }

  // All inputs, in the program's order; gives all outputs.
  std::vector<Tensor> run(const std::vector<Tensor> &inputs) {
    std::vector<const Tensor *> all;
    for (const Tensor &t : inputs) all.push_back(&t);
    return run_all(all);
  }
  template <typename... T> std::vector<Tensor> operator()(const Tensor &first, const T &...more) {
    return run_all({&first, &more...});
  }

  // Inputs by name.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor> &inputs) {
    std::vector<const Tensor *> all;
    for (const ValueInfo &info : this->inputs()) {
      auto found = inputs.find(info.name);
      if (found == inputs.end()) throw Error(TENON_EINVAL, "run: no input '" + info.name + "'");
      all.push_back(&found->second);
    }
    if (all.size() != inputs.size())
      for (const auto &given : inputs) refuse_unknown(given.first);
    std::vector<Tensor> made = run_all(all);
    std::map<std::string, Tensor> named;
    std::vector<ValueInfo> outs = outputs();
    for (size_t i = 0; i < made.size(); i++) named.emplace(outs[i].name, std::move(made[i]));
    return named;
  }

  tenon_session *get() const noexcept { return handle_.get(); }

private:
  friend class Program;
  explicit Session(tenon_session *handle) : handle_(handle) {}

  template <typename Count, typename Get> std::vector<ValueInfo> infos(Count count, Get at) const {
    std::vector<ValueInfo> all;
    const tenon_program *program = tenon_session_program(get());
    for (size_t i = 0; i < count(program); i++) {
      tenon_value_info info;
      detail::check([&](tenon_error *) { return at(program, i, &info); });
      all.emplace_back(info);
    }
    return all;
  }
  void refuse_unknown(const std::string &name) const {
    for (const ValueInfo &info : inputs())
      if (info.name == name) return;
    throw Error(TENON_EINVAL, "run: the model has no input '" + name + "'");
  }
  std::vector<Tensor> run_all(const std::vector<const Tensor *> &inputs) {
    std::vector<tenon_tensor> in, out(tenon_program_output_count(tenon_session_program(get())));
    for (const Tensor *t : inputs) in.push_back(t->get());
    std::vector<Tensor> made;
    made.reserve(out.size());  // so that nothing throws between the run and the owners
    detail::check([&](tenon_error *error) {
      return tenon_session_run(get(), in.data(), in.size(), out.data(), out.size(), nullptr, error);
    });
    for (tenon_tensor &raw : out) made.push_back(Tensor::adopt(raw));
    return made;
  }

  detail::Handle<tenon_session, tenon_session_release> handle_;
};

// A compiled model.  Threads share it, and each has a session of its own.
class Program {
public:
  // A file that save() or `tenon compile` wrote.  It is code: load only what you trust.
  static Program load(const std::string &path, const std::string &target = "") {
    tenon_load_options options{};
    options.struct_size = sizeof options;
    options.target = target.empty() ? nullptr : target.c_str();
    tenon_program *made = nullptr;
    detail::check([&](tenon_error *error) {
      return tenon_program_load(path.c_str(), &options, &made, error);
    });
    return Program(made);
  }
  void save(const std::string &path) const {
    detail::check(
        [&](tenon_error *error) { return tenon_program_save(get(), path.c_str(), error); });
  }

  // `threads`: 0 is all that this process may use.
  Session session(int32_t threads = 0) const {
    tenon_session_options options{};
    options.struct_size = sizeof options;
    options.threads = threads;
    tenon_session *made = nullptr;
    detail::check(
        [&](tenon_error *error) { return tenon_session_create(get(), &options, &made, error); });
    return Session(made);
  }

  std::string target() const {
    tenon_program_info info{};
    tenon_program_describe(get(), &info);
    return info.target;
  }
  std::vector<std::string> warnings() const {
    std::vector<std::string> all;
    for (size_t i = 0; i < tenon_program_warning_count(get()); i++)
      all.emplace_back(tenon_program_warning(get(), i));
    return all;
  }

  tenon_program *get() const noexcept { return handle_.get(); }

private:
  friend class Model;
  explicit Program(tenon_program *handle) : handle_(handle) {}
  detail::Handle<tenon_program, tenon_program_release> handle_;
};

class Model {
public:
  static Model open(const std::string &path) {
    tenon_model *made = nullptr;
    detail::check([&](tenon_error *error) { return tenon_model_open(path.c_str(), &made, error); });
    return Model(made);
  }

  std::vector<ValueInfo> inputs() const {
    return infos(tenon_model_input_count, tenon_model_input);
  }
  std::vector<ValueInfo> outputs() const {
    return infos(tenon_model_output_count, tenon_model_output);
  }

  // What `progress` throws is thrown from here.
  Program compile(const CompileOptions &options = {}) const {
    std::vector<tenon_dim> dims;
    for (const auto &d : options.dims) dims.push_back({d.first.c_str(), d.second});
    std::vector<tenon_named_option> named;
    for (const auto &o : options.set) named.push_back({o.first.c_str(), o.second.c_str()});
    Watch watch{options.progress, nullptr};
    tenon_options raw{};
    raw.struct_size = sizeof raw;
    raw.target = options.target.empty() ? nullptr : options.target.c_str();
    raw.dims = dims.data(), raw.ndims = dims.size();
    raw.named = named.data(), raw.nnamed = named.size();
    raw.progress = options.progress ? report : nullptr;
    raw.user = &watch;
    tenon_program *made = nullptr;
    try {
      detail::check([&](tenon_error *error) { return tenon_compile(get(), &raw, &made, error); });
    } catch (const Error &) {
      if (watch.thrown) std::rethrow_exception(watch.thrown);
      throw;
    }
    return Program(made);
  }

  tenon_model *get() const noexcept { return handle_.get(); }

private:
  explicit Model(tenon_model *handle) : handle_(handle) {}

  // An exception must not pass through the library, which is C: it is kept until that has returned.
  struct Watch {
    const std::function<bool(const tenon_progress &)> &call;
    std::exception_ptr thrown;
  };
  static int report(const tenon_progress *progress, void *user) noexcept {
    Watch *watch = static_cast<Watch *>(user);
    try {
      return watch->call(*progress) ? 0 : 1;
    } catch (...) {
      watch->thrown = std::current_exception();
      return 1;
    }
  }

  template <typename Count, typename Get> std::vector<ValueInfo> infos(Count count, Get at) const {
    std::vector<ValueInfo> all;
    for (size_t i = 0; i < count(get()); i++) {
      tenon_value_info info;
      detail::check([&](tenon_error *) { return at(get(), i, &info); });
      all.emplace_back(info);
    }
    return all;
  }

  detail::Handle<tenon_model, tenon_model_close> handle_;
};

}  // namespace tenon

#endif
