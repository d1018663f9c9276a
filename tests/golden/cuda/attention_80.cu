extern "C" __global__ void tn_kernel(const tn_u16 *x0, const tn_u16 *x1, const tn_u16 *x2, tn_u16 *y0_, long long items, unsigned char *scratch, long long scratch_each, int *fault) {
  __shared__ __align__(16) tn_f32 q[2080];
  __shared__ __align__(16) tn_f32 k[2080];
  __shared__ __align__(16) tn_f32 v[2048];
  __shared__ __align__(16) tn_f32 score[1280];
  __shared__ __align__(16) tn_f32 weight[1280];
  tn_f32 top[1];
  tn_f32 sum[1];
  tn_f32 rescale[1];
  tn_f32 acc[8];
  for (int item = blockIdx.x; item < items; item += gridDim.x) {
    __syncthreads();
    {
      const int t = threadIdx.x;
      top[0] = -INFINITY;
      sum[0] = 0.0f;
      #pragma unroll
      for (int c = 0; c < 8; c++) {
        acc[c] = 0.0f;
      }
      for (int j = 0; j < 8; j++) {
        q[t % 64 + 65 * (t / 64) + 260 * j] = 0.0f;
        const int in_ = 32 * (item % 3) + t / 64 + 4 * j;
        if (in_ < 70) {
          q[t % 64 + 65 * (t / 64) + 260 * j] = tn_from_bf16(x0[t % 64 + 4480 * (item / 3) + 64 * in_]) * 0.125f;
        }
      }
    }
    for (int block = 0; block < 3; block++) {
      __syncthreads();
      {
        const int t_1 = threadIdx.x;
        for (int j_1 = 0; j_1 < 8; j_1++) {
          k[t_1 % 64 + 65 * (t_1 / 64) + 260 * j_1] = 0.0f;
          const int in_1 = t_1 / 64 + 4 * j_1 + 32 * block;
          if (in_1 < 70) {
            k[t_1 % 64 + 65 * (t_1 / 64) + 260 * j_1] = tn_from_bf16(x1[t_1 % 64 + 4480 * (item / 3) + 64 * in_1]);
          }
        }
        for (int j_2 = 0; j_2 < 8; j_2++) {
          v[t_1 + 256 * j_2] = 0.0f;
          const int in_2 = t_1 / 64 + 4 * j_2 + 32 * block;
          if (in_2 < 70) {
            v[t_1 + 256 * j_2] = tn_from_bf16(x2[t_1 % 64 + 4480 * (item / 3) + 64 * in_2]);
          }
        }
      }
      __syncthreads();
      {
        const int t_2 = threadIdx.x;
        for (int j_3 = 0; j_3 < 4; j_3++) {
          float v0 = 0.0f;
          for (int d = 0; d < 64; d++) {
            v0 = v0 + (q[65 * (t_2 / 8) + d] * k[65 * (t_2 % 8) + 520 * j_3 + d]);
          }
          score[t_2 % 8 + 40 * (t_2 / 8) + 8 * j_3] = ((int64_t)(t_2 % 8 + 8 * j_3 + 32 * block) < INT64_C(70)) ? v0 : (-INFINITY);
        }
      }
      __syncthreads();
      {
        const int t_3 = threadIdx.x;
        float v1 = -INFINITY;
        for (int i = 0; i < 32; i++) {
          v1 = tn_max_f32(v1, score[40 * (t_3 / 8) + i]);
        }
        const float v2 = top[0];
        const float v3 = tn_max_f32(v2, v1);
        const float v4 = (v3 == (-INFINITY)) ? 0.0f : v3;
        top[0] = v3;
        rescale[0] = tn_exp_f32(v2 - v4);
        for (int j_4 = 0; j_4 < 4; j_4++) {
          weight[t_3 % 8 + 40 * (t_3 / 8) + 8 * j_4] = tn_exp_f32(score[t_3 % 8 + 40 * (t_3 / 8) + 8 * j_4] - v4);
        }
      }
      __syncthreads();
      {
        const int t_4 = threadIdx.x;
        const float v5 = rescale[0];
        float v6 = 0.0f;
        for (int i_1 = 0; i_1 < 32; i_1++) {
          v6 = v6 + weight[40 * (t_4 / 8) + i_1];
        }
        sum[0] = tn_fma_f32(sum[0], v5, v6);
        #pragma unroll
        for (int c_1 = 0; c_1 < 8; c_1++) {
          acc[c_1] = acc[c_1] * v5;
        }
        for (int i_2 = 0; i_2 < 32; i_2++) {
          const float v7 = weight[40 * (t_4 / 8) + i_2];
          #pragma unroll
          for (int c_2 = 0; c_2 < 8; c_2++) {
            acc[c_2] = tn_fma_f32(v7, v[t_4 % 8 + 64 * i_2 + 8 * c_2], acc[c_2]);
          }
        }
      }
    }
    {
      const int t_5 = threadIdx.x;
      const float v8 = sum[0];
      const float v9 = (v8 == 0.0f) ? 0.0f : (1.0f / v8);
      #pragma unroll
      for (int c_3 = 0; c_3 < 8; c_3++) {
        const int in_3 = 32 * (item % 3) + t_5 / 8;
        if (in_3 < 70) {
          const unsigned short v10 = tn_to_bf16(acc[c_3] * v9);
          y0_[t_5 % 8 + 4480 * (item / 3) + 64 * in_3 + 8 * c_3] = v10;
        }
      }
    }
  }
}

