// detect.cc -- objects in the frames of a camera, with a model that has the inputs and outputs of
// YOLOv8.
//
//   c++ -std=c++17 detect.cc $(pkg-config --cflags --libs tenon) -o detect
//   ./detect model.onnx [FRAMES]
//
// The camera is made up: 640x480 frames of 8-bit RGB with noise and a red square that moves.  Each
// frame is scaled and padded to the model's size, and boxes are mapped back to the frame, as a
// program with a real camera does.  The model: f32[1, 3, H, W] in 0 to 1, to f32[1, 4 + classes,
// boxes] with cx, cy, w, h.
#include <tenon/tenon.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

struct Frame {
  int width = 640, height = 480;
  std::vector<uint8_t> rgb = std::vector<uint8_t>(size_t(width) * height * 3);
};

struct Box {
  float x, y, w, h, score;  // x, y: the upper left corner, in pixels of the frame
  int kind;
};

class Camera {
public:
  const Frame &next() {
    int left = 60 + 60 * (count_ % 8), top = 120 + 20 * (count_ % 8);
    for (int y = 0; y < frame_.height; y++)
      for (int x = 0; x < frame_.width; x++) {
        noise_ = noise_ * 1664525u + 1013904223u;
        uint8_t grey = uint8_t(100 + (noise_ >> 27));
        bool inside = x >= left && x < left + 107 && y >= top && y < top + 107;
        uint8_t *pixel = &frame_.rgb[(size_t(y) * frame_.width + x) * 3];
        pixel[0] = inside ? 250 : grey, pixel[1] = pixel[2] = inside ? 20 : grey;
      }
    count_++;
    return frame_;
  }

private:
  Frame frame_;
  int count_ = 0;
  uint32_t noise_ = 1;
};

class Detector {
public:
  explicit Detector(const std::string &path)
      : session_(tenon::Model::open(path).compile().session()) {
    tenon::ValueInfo in = session_.inputs().at(0);
    if (in.rank != 4 || in.shape[1] != 3 || in.shape[2] < 1 || in.shape[3] < 1)
      throw std::runtime_error("the model's input is " + in.type + ", not f32[1, 3, H, W]");
    input_ = tenon::Tensor::zeros(TENON_DTYPE_F32, {1, 3, in.shape[2], in.shape[3]});
  }

  std::vector<Box> find(const Frame &frame) {
    fit(frame);
    std::vector<tenon::Tensor> out = session_(input_);
    return suppressed(decoded(out.at(0)));
  }

private:
  // The frame in the middle of the input, as large as fits; grey around it.
  void fit(const Frame &frame) {
    int64_t h = input_.shape()[2], w = input_.shape()[3];
    scale_ = std::min(float(w) / frame.width, float(h) / frame.height);
    left_ = (w - frame.width * scale_) / 2, top_ = (h - frame.height * scale_) / 2;
    float *to = input_.data<float>();
    for (int64_t c = 0; c < 3; c++)
      for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++) {
          int fx = int((x + 0.5f - left_) / scale_), fy = int((y + 0.5f - top_) / scale_);
          bool inside =
              x + 0.5f >= left_ && y + 0.5f >= top_ && fx < frame.width && fy < frame.height;
          *to++ = inside ? frame.rgb[(size_t(fy) * frame.width + fx) * 3 + c] / 255.0f : 0.45f;
        }
  }

  std::vector<Box> decoded(const tenon::Tensor &out) const {
    tenon::Shape shape = out.shape();
    if (shape.size() != 3 || shape[0] != 1 || shape[1] < 5)
      throw std::runtime_error("the model's output is not f32[1, 4 + classes, boxes]");
    int64_t n = shape[2];
    const float *v = out.data<float>();
    std::vector<Box> boxes;
    for (int64_t i = 0; i < n; i++)
      for (int64_t k = 4; k < shape[1]; k++) {
        float score = v[k * n + i], w = v[2 * n + i] / scale_, h = v[3 * n + i] / scale_;
        float cx = (v[i] - left_) / scale_, cy = (v[n + i] - top_) / scale_;
        if (score >= 0.4f) boxes.push_back({cx - w / 2, cy - h / 2, w, h, score, int(k - 4)});
      }
    return boxes;
  }

  static float overlap(const Box &a, const Box &b) {
    float w = std::min(a.x + a.w, b.x + b.w) - std::max(a.x, b.x);
    float h = std::min(a.y + a.h, b.y + b.h) - std::max(a.y, b.y);
    float both = std::max(w, 0.0f) * std::max(h, 0.0f);
    return both / (a.w * a.h + b.w * b.h - both);
  }

  // The best of each group of boxes that overlap (non-maximum suppression).
  static std::vector<Box> suppressed(std::vector<Box> boxes) {
    std::sort(boxes.begin(), boxes.end(),
              [](const Box &a, const Box &b) { return a.score > b.score; });
    std::vector<Box> kept;
    for (const Box &b : boxes)
      if (std::none_of(kept.begin(), kept.end(),
                       [&](const Box &k) { return k.kind == b.kind && overlap(k, b) > 0.1f; }))
        kept.push_back(b);
    return kept;
  }

  tenon::Session session_;
  tenon::Tensor input_;
  float scale_ = 1, left_ = 0, top_ = 0;
};

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: detect MODEL [FRAMES]\n");
    return 2;
  }
  try {
    Detector detector(argv[1]);
    Camera camera;
    for (int i = 0, n = argc > 2 ? std::atoi(argv[2]) : 4; i < n; i++)
      for (const Box &b : detector.find(camera.next()))
        std::printf("frame %d: class %d, score %.2f, at %.0f,%.0f size %.0fx%.0f\n", i, b.kind,
                    b.score, b.x, b.y, b.w, b.h);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "detect: %s\n", error.what());
    return 1;
  }
}
