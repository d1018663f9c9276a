extern "C" __global__ void tn_kernel(const tn_f32 *x0, const tn_f32 *x1, tn_f32 *y0_, long long items, unsigned char *scratch, long long scratch_each, int *fault) {
  tn_f32 same[6];
  tn_f32 acc[1];
  tn_f32 sum[1];
  tn_f32 part[1] = {0};
  __shared__ __align__(16) tn_f32 sums[128];
  tn_f32 total[1];
  for (int item = blockIdx.x; item < items; item += gridDim.x) {
    {
      const int t = threadIdx.x;
      const int in_ = t;
      if (in_ < 24) {
        tn_prefetch(x1 + (32 * in_));
      }
    }
    {
      const int t_1 = threadIdx.x;
      #pragma unroll
      for (int j = 0; j < 3; j++) {
        {
          const tn_run<float, 2> pack = *(const tn_run<float, 2> *)(x1 + (2 * t_1 + 256 * j));
          #pragma unroll
          for (int c = 0; c < 2; c++) {
            same[2 * j + c] = pack.v[c];
          }
        }
      }
    }
    {
      const int t_2 = threadIdx.x;
      acc[0] = 0.0f;
      #pragma unroll
      for (int j_1 = 0; j_1 < 3; j_1++) {
        {
          const tn_run<float, 2> pack_1 = *(const tn_run<float, 2> *)(x0 + (2 * t_2 + 256 * j_1 + 768 * item));
          #pragma unroll
          for (int c_1 = 0; c_1 < 2; c_1++) {
            const float t_3 = pack_1.v[c_1];
            acc[0] = acc[0] + (t_3 * t_3);
          }
        }
      }
      part[0] = acc[0];
    }
    __syncthreads();
    {
      const int t_3_1 = threadIdx.x;
      float v0 = part[0];
      const float other = __shfl_xor_sync(~0u, v0, 16);
      v0 = v0 + other;
      const float other_1 = __shfl_xor_sync(~0u, v0, 8);
      v0 = v0 + other_1;
      const float other_2 = __shfl_xor_sync(~0u, v0, 4);
      v0 = v0 + other_2;
      const float other_3 = __shfl_xor_sync(~0u, v0, 2);
      v0 = v0 + other_3;
      const float other_4 = __shfl_xor_sync(~0u, v0, 1);
      v0 = v0 + other_4;
      sums[t_3_1] = v0;
    }
    __syncthreads();
    {
      const int t_4 = threadIdx.x;
      float v1 = 0.0f;
      for (int q_1 = 0; q_1 < 4; q_1++) {
        v1 = v1 + sums[32 * q_1];
      }
      sum[0] = v1;
    }
    {
      const int t_5 = threadIdx.x;
      const float v2 = sum[0] / 768.0f;
      total[0] = v2;
    }
    {
      const int t_6 = threadIdx.x;
      #pragma unroll
      for (int j_2 = 0; j_2 < 3; j_2++) {
        {
          const tn_run<float, 2> pack_2 = *(const tn_run<float, 2> *)(x0 + (2 * t_6 + 256 * j_2 + 768 * item));
          tn_run<float, 2> pack_3;
          #pragma unroll
          for (int c_2 = 0; c_2 < 2; c_2++) {
            pack_3.v[c_2] = same[2 * j_2 + c_2] * (pack_2.v[c_2] * (1.0f / tn_sqrt_f32(total[0] + 1e-05f)));
          }
          *(tn_run<float, 2> *)(y0_ + (2 * t_6 + 256 * j_2 + 768 * item)) = pack_3;
        }
      }
    }
  }
}

