//tn threads 128
//tn shared 61568
extern "C" __global__ void __launch_bounds__(128, 2) tn_kernel(const tn_u16 *__restrict__ x0, tn_u16 *y0_, const tn_u16 *__restrict__ w, long long items, unsigned char *scratch, long long scratch_each, int *fault) {
  extern __shared__ unsigned char tn_raw[];
  const unsigned tn_ring = (tn_shared_at(tn_raw) + 127u) & ~127u;
  const int tn_lane = threadIdx.x % 32, tn_warp = threadIdx.x / 32;
  const int tn_down = tn_warp / 2, tn_across = tn_warp % 2;
  const unsigned tn_rows_at = (tn_down * 32u + (tn_lane & 15)) * 128u + (((tn_lane >> 4) ^ (tn_lane & 7)) << 4);
  const unsigned tn_cols_at = (64u + tn_across * 16u + (tn_lane & 7) + (tn_lane >> 4) * 8) * 128u + (((tn_lane >> 3 & 1) ^ (tn_lane & 7)) << 4);
  const int tn_piece = threadIdx.x % 8, tn_line = threadIdx.x / 8;
  const unsigned tn_copies = tn_ring + tn_line * 128u + ((tn_piece ^ (tn_line & 7)) << 4);
  const int tn_blocks = 9;
  for (long long tn_t = blockIdx.x; tn_t < items; tn_t += gridDim.x) {
    const int item = (int)tn_t;
    int tn_row = (int)(64 * item) + tn_line;
    int tn_col = (int)(0) + tn_line;
    const char *tn_b = (const char *)w + ((long long)tn_col * (576) + tn_piece * 8) * 2;
    int tn_pixel[4];
    int tn_y[4], tn_x[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      const int tn_r = tn_row + i * 16, tn_image = tn_r / 196, tn_in = tn_r % 196;
      tn_y[i] = tn_in / 14 * 1 - 1;
      tn_x[i] = tn_in % 14 * 1 - 1;
      tn_pixel[i] = ((int)tn_image * 14 + tn_y[i]) * 896 + tn_x[i] * 64 + tn_piece * 8;
      if (tn_r >= 196) tn_y[i] = -(1 << 30);
    }
    int tn_c = 0, tn_tap = 0, tn_dx = 0, tn_dy = 0;
    unsigned tn_x_of[2][2][4], tn_y_of[2][1][4];
    float tn_sum[2][8];
    #pragma unroll
    for (int q = 0; q < 16; q++) tn_sum[q / 8][q % 8] = 0.0f;
    int tn_next = 0, tn_put = 0, tn_get = 0;
    #pragma unroll 1
    for (int s = 0; s < 4; s++) {
      if (tn_next < tn_blocks) {
        const unsigned tn_to = tn_copies + tn_put * 12288u;
        const int tn_shift = (int)tn_dy * 896 + tn_dx * 64 + tn_c;
        #pragma unroll
        for (int i = 0; i < 4; i++)
          tn_copy(tn_to + i * 2048u, (const char *)(x0 + (tn_pixel[i] + tn_shift)), (unsigned)(tn_y[i] + tn_dy) < 14u && (unsigned)(tn_x[i] + tn_dx) < 14u);
        const char *const tn_taps = tn_b + ((long long)tn_tap * 64 + tn_c) * 2;
        #pragma unroll
        for (int i = 0; i < 2; i++) tn_copy(tn_to + 8192u + i * 2048u, tn_taps + (long long)i * 16 * (576) * 2, true);
        if ((tn_c += 64) >= 64) {
          tn_c = 0, tn_tap++;
          if ((tn_dx += 1) == 3) tn_dx = 0, tn_dy += 1;
        }
      }
      tn_next++;
      if (++tn_put == 5) tn_put = 0;
      asm volatile("cp.async.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.wait_group 3;" ::: "memory");
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 2; i++) tn_get_four(tn_ring + tn_get * 12288u + ((tn_rows_at + i * 2048u) ^ ((0) * 32u)), tn_x_of[0][i]);
    #pragma unroll
    for (int i = 0; i < 1; i++) tn_get_four(tn_ring + tn_get * 12288u + ((tn_cols_at + i * 2048u) ^ ((0) * 32u)), tn_y_of[0][i]);
    #pragma unroll 1
    for (int tn_k = 0; tn_k < tn_blocks; tn_k++) {
      #pragma unroll
      for (int q = 0; q < 4; q++) {
        if (q == 3) {
          asm volatile("cp.async.wait_group 3;" ::: "memory");
          __syncthreads();
          if (++tn_get == 5) tn_get = 0;
        }
        #pragma unroll
        for (int i = 0; i < 2; i++) tn_get_four(tn_ring + tn_get * 12288u + ((tn_rows_at + i * 2048u) ^ (((q + 1) % 4) * 32u)), tn_x_of[(q + 1) & 1][i]);
        #pragma unroll
        for (int i = 0; i < 1; i++) tn_get_four(tn_ring + tn_get * 12288u + ((tn_cols_at + i * 2048u) ^ (((q + 1) % 4) * 32u)), tn_y_of[(q + 1) & 1][i]);
        if (q == 0) {
          if (tn_next < tn_blocks) {
            const unsigned tn_to = tn_copies + tn_put * 12288u;
            const int tn_shift = (int)tn_dy * 896 + tn_dx * 64 + tn_c;
            #pragma unroll
            for (int i = 0; i < 4; i++)
              tn_copy(tn_to + i * 2048u, (const char *)(x0 + (tn_pixel[i] + tn_shift)), (unsigned)(tn_y[i] + tn_dy) < 14u && (unsigned)(tn_x[i] + tn_dx) < 14u);
            const char *const tn_taps = tn_b + ((long long)tn_tap * 64 + tn_c) * 2;
            #pragma unroll
            for (int i = 0; i < 2; i++) tn_copy(tn_to + 8192u + i * 2048u, tn_taps + (long long)i * 16 * (576) * 2, true);
            if ((tn_c += 64) >= 64) {
              tn_c = 0, tn_tap++;
              if ((tn_dx += 1) == 3) tn_dx = 0, tn_dy += 1;
            }
          }
          tn_next++;
          if (++tn_put == 5) tn_put = 0;
          asm volatile("cp.async.commit_group;" ::: "memory");
        }
        #pragma unroll
        for (int i = 0; i < 2; i++)
          #pragma unroll
          for (int j = 0; j < 2; j++) tn_multiply(tn_sum[i] + j * 4, tn_x_of[q & 1][i], tn_y_of[q & 1][j / 2] + j % 2 * 2);
      }
    }
    const bool tn_right = tn_lane & 1;
    if (((unsigned long long)y0_ % 8) == 0) {
      if (64 * item + 64 <= 196 && 0 + 32 <= 32) {
        #pragma unroll
        for (int tn_p = 0; tn_p < 1; tn_p++) {
          const int tn_first = (tn_across * 16 + tn_p * 16) + (tn_lane & 1) * 8 + (tn_lane & 2) * 2;
          #pragma unroll
          for (int tn_u = 0; tn_u < 4; tn_u++) {
            const int tn_b = tn_u / 2, tn_h = tn_u % 2;
            const int i = tn_down * 32 + tn_b * 16 + tn_h * 8 + (tn_lane >> 2);
            const float *const tn_d = tn_sum[tn_b] + tn_p * 8 + tn_h * 2;
            const float tn_x = __shfl_xor_sync(~0u, tn_right ? tn_d[0] : tn_d[4], 1);
            const float tn_y = __shfl_xor_sync(~0u, tn_right ? tn_d[1] : tn_d[5], 1);
            const float tn_four[4] = {tn_right ? tn_x : tn_d[0], tn_right ? tn_y : tn_d[1],
                                      tn_right ? tn_d[4] : tn_x, tn_right ? tn_d[5] : tn_y};
            __align__(16) unsigned short out_[4];
            #pragma unroll
            for (int tn_v = 0; tn_v < 4; tn_v++) {
              const int j = tn_first + tn_v;
              const float tn_low = tn_v & 1 ? tn_four[1] : tn_four[0];
              const float tn_value = tn_v < 2 ? tn_low : tn_v & 1 ? tn_four[3] : tn_four[2];
              const float t = tn_from_bf16(tn_to_bf16(tn_value));
              out_[tn_v] = tn_to_bf16((t < 0.0f) ? 0.0f : t);
            }
            *(uint2 *)(y0_ + (32 * (64 * item + i) + tn_first)) = *(const uint2 *)out_;
          }
        }
      } else {
        #pragma unroll
        for (int tn_p = 0; tn_p < 1; tn_p++) {
          const int tn_first = (tn_across * 16 + tn_p * 16) + (tn_lane & 1) * 8 + (tn_lane & 2) * 2;
          #pragma unroll
          for (int tn_u = 0; tn_u < 4; tn_u++) {
            const int tn_b = tn_u / 2, tn_h = tn_u % 2;
            const int i_1 = tn_down * 32 + tn_b * 16 + tn_h * 8 + (tn_lane >> 2);
            const bool tn_there = 64 * item + i_1 < 196;
            const float *const tn_d = tn_sum[tn_b] + tn_p * 8 + tn_h * 2;
            const float tn_x = __shfl_xor_sync(~0u, tn_right ? tn_d[0] : tn_d[4], 1);
            const float tn_y = __shfl_xor_sync(~0u, tn_right ? tn_d[1] : tn_d[5], 1);
            const float tn_four[4] = {tn_right ? tn_x : tn_d[0], tn_right ? tn_y : tn_d[1],
                                      tn_right ? tn_d[4] : tn_x, tn_right ? tn_d[5] : tn_y};
            if (tn_there) {
              __align__(16) unsigned short out__1[4];
              #pragma unroll
              for (int tn_v = 0; tn_v < 4; tn_v++) {
                const int j_1 = tn_first + tn_v;
                const float tn_low = tn_v & 1 ? tn_four[1] : tn_four[0];
                const float tn_value = tn_v < 2 ? tn_low : tn_v & 1 ? tn_four[3] : tn_four[2];
                const float t_1 = tn_from_bf16(tn_to_bf16(tn_value));
                out__1[tn_v] = tn_to_bf16((t_1 < 0.0f) ? 0.0f : t_1);
              }
              *(uint2 *)(y0_ + (32 * (64 * item + i_1) + tn_first)) = *(const uint2 *)out__1;
            }
          }
        }
      }
    } else {
      #pragma unroll
      for (int tn_p = 0; tn_p < 1; tn_p++) {
        const int tn_first = (tn_across * 16 + tn_p * 16) + (tn_lane & 1) * 8 + (tn_lane & 2) * 2;
        #pragma unroll
        for (int tn_u = 0; tn_u < 4; tn_u++) {
          const int tn_b = tn_u / 2, tn_h = tn_u % 2;
          const int i_2 = tn_down * 32 + tn_b * 16 + tn_h * 8 + (tn_lane >> 2);
          const bool tn_there = 64 * item + i_2 < 196;
          const float *const tn_d = tn_sum[tn_b] + tn_p * 8 + tn_h * 2;
          const float tn_x = __shfl_xor_sync(~0u, tn_right ? tn_d[0] : tn_d[4], 1);
          const float tn_y = __shfl_xor_sync(~0u, tn_right ? tn_d[1] : tn_d[5], 1);
          const float tn_four[4] = {tn_right ? tn_x : tn_d[0], tn_right ? tn_y : tn_d[1],
                                    tn_right ? tn_d[4] : tn_x, tn_right ? tn_d[5] : tn_y};
          if (tn_there) {
            #pragma unroll 1
            for (int tn_v = 0; tn_v < 4; tn_v++) {
              const int j_2 = tn_first + tn_v;
              const float tn_low = tn_v & 1 ? tn_four[1] : tn_four[0];
              const float tn_value = tn_v < 2 ? tn_low : tn_v & 1 ? tn_four[3] : tn_four[2];
              const float t_2 = tn_from_bf16(tn_to_bf16(tn_value));
              y0_[32 * (64 * item + i_2) + j_2] = tn_to_bf16((t_2 < 0.0f) ? 0.0f : t_2);
            }
          }
        }
      }
    }
    __syncthreads();
  }
}

