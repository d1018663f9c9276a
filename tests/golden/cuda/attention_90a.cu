//tn threads 128
//tn shared 29728
//tn early
//tn map 0 bf16 3 64 70 4 128 8960 64 64 1
//tn map 1 bf16 3 64 70 4 128 8960 64 80 1
//tn map 2 bf16 3 64 70 4 128 8960 64 80 1
extern "C" __global__ void __launch_bounds__(128, 1) tn_kernel(const tn_u16 *__restrict__ x0, const tn_u16 *__restrict__ x1, const tn_u16 *__restrict__ x2, tn_u16 *y0_, long long items, unsigned char *scratch, long long scratch_each, int *fault, const __grid_constant__ tn_map tn_map_q, const __grid_constant__ tn_map tn_map_k, const __grid_constant__ tn_map tn_map_v) {
  extern __shared__ unsigned char tn_raw[];
  const unsigned tn_queries = (tn_shared_at(tn_raw) + 1023u) & ~1023u;
  const unsigned tn_at = tn_queries + 8192u, tn_values_at = tn_at + 10240u;
  const unsigned tn_bars = tn_values_at + 10240u;
  const int tn_lane = threadIdx.x % 32, tn_warp = threadIdx.x / 32;
  const int tn_block = 0;
  unsigned tn_parity = 0, tn_query_parity = 0; /* of keys and values; of queries */
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&tn_map_q) : "memory");
    asm volatile("prefetch.tensormap [%0];" :: "l"(&tn_map_k) : "memory");
    asm volatile("prefetch.tensormap [%0];" :: "l"(&tn_map_v) : "memory");
    for (int s = 0; s < 3; s++) tn_bar_init(tn_bars + s * 8, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  for (long long tn_t = blockIdx.x; tn_t < items; tn_t += gridDim.x) {
    const int item = (int)tn_t;
    const int tn_row = (int)(64 * (item % 2)), tn_rows = (int)(70);
    const int tn_keys = 70;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (threadIdx.x == 0) {
      tn_bar_expect(tn_bars, 8192);
      tn_fetch_3(tn_queries + 0, &tn_map_q, (int)(0) + 0, tn_row + (0) * 64, (int)(item / 2), tn_bars);
      tn_bar_expect(tn_bars + 8, 10240);
      tn_fetch_3(tn_at + 0, &tn_map_k, (int)(0) + 0, 0, (int)(item / 2), tn_bars + 8);
      tn_bar_expect(tn_bars + 16, 10240);
      tn_fetch_3(tn_values_at + 0, &tn_map_v, (int)(0) + 0, 0, (int)(item / 2), tn_bars + 16);
    }
    {
      const int tn_who = 0;
      float tn_s[40], tn_sum[32], tn_l[2] = {0.0f, 0.0f};
      unsigned tn_w[20];
      tn_bar_wait(tn_bars, tn_query_parity);
      tn_query_parity ^= 1u;
      tn_bar_wait(tn_bars + 8, tn_parity);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      #pragma unroll
      for (int q = 0; q < 4; q++) {
        tn_product(tn_s, tn_operand(tn_queries + q / 4 * 8192) + q % 4 * 2,
                   tn_operand(tn_at + q / 4 * 10240) + q % 4 * 2, q);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      #pragma unroll
      for (int q = 0; q < 40; q++) asm volatile("" : "+f"(tn_s[q]) :: "memory");
      asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
      if (!((int)tn_block * 80 + 80 <= tn_keys)) {
        #pragma unroll
        for (int q = 0; q < 40; q++) {
          const int i = tn_who * 64 + tn_warp * 16 + (tn_lane >> 2) + (q >> 1 & 1) * 8;
          const int key_2 = (int)tn_block * 80 + (q >> 2) * 8 + (tn_lane & 3) * 2 + (q & 1);
          if (!(key_2 < tn_keys)) tn_s[q] = -INFINITY;
        }
      }
      float tn_from[2], tn_by[2];
      #pragma unroll
      for (int h = 0; h < 2; h++) {
        float tn_m = -INFINITY;
        #pragma unroll
        for (int j = 0; j < 10; j++) tn_m = fmaxf(tn_m, fmaxf(tn_s[j * 4 + h * 2], tn_s[j * 4 + h * 2 + 1]));
        tn_m = tn_most(tn_m);
        tn_by[h] = tn_factor(tn_m, 0.18033688f);
        tn_from[h] = tn_m == -INFINITY ? 0.0f : -tn_m * tn_by[h];
      }
      #pragma unroll
      for (int j = 0; j < 10; j++) {
        #pragma unroll
        for (int h = 0; h < 2; h++) {
          const float tn_x = tn_exp2(__fmaf_rn(tn_s[j * 4 + h * 2 + 0], tn_by[h], tn_from[h]));
          const float tn_y = tn_exp2(__fmaf_rn(tn_s[j * 4 + h * 2 + 1], tn_by[h], tn_from[h]));
          tn_l[h] += tn_x + tn_y;
          tn_w[j * 2 + h] = tn_pack(tn_x, tn_y);
        }
      }
      tn_bar_wait(tn_bars + 16, tn_parity);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      #pragma unroll
      for (int q = 0; q < 5; q++)
        tn_weigh(tn_sum, tn_w + q * 4, tn_values(tn_values_at + q * 2048, 10240), q);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      #pragma unroll
      for (int q = 0; q < 32; q++) asm volatile("" : "+f"(tn_sum[q]) :: "memory");
      const float tn_whole[2] = {tn_all(tn_l[0]), tn_all(tn_l[1])};
      const bool tn_right = tn_lane & 1;
      if (((unsigned long long)y0_ % 8) == 0) {
        if (64 * (item % 2) + 64 <= 70 && 0 + 64 <= 64) {
          #pragma unroll
          for (int tn_p = 0; tn_p < 4; tn_p++) {
            const int tn_first = (tn_p * 16) + (tn_lane & 1) * 8 + (tn_lane & 2) * 2;
            #pragma unroll
            for (int tn_u = 0; tn_u < 2; tn_u++) {
              const int tn_b = tn_u / 2, tn_h = tn_u % 2;
              const int i_1 = tn_who * 64 + tn_warp * 16 + tn_h * 8 + (tn_lane >> 2);
              const float tn_total = tn_whole[tn_h];
              const float *const tn_d = tn_sum + tn_p * 8 + tn_h * 2;
              const float tn_x = __shfl_xor_sync(~0u, tn_right ? tn_d[0] : tn_d[4], 1);
              const float tn_y = __shfl_xor_sync(~0u, tn_right ? tn_d[1] : tn_d[5], 1);
              const float tn_four[4] = {tn_right ? tn_x : tn_d[0], tn_right ? tn_y : tn_d[1],
                                        tn_right ? tn_d[4] : tn_x, tn_right ? tn_d[5] : tn_y};
              __align__(16) unsigned short out_[4];
              #pragma unroll
              for (int tn_v = 0; tn_v < 4; tn_v++) {
                const int c = tn_first + tn_v;
                const float tn_low = tn_v & 1 ? tn_four[1] : tn_four[0];
                const float tn_value = tn_v < 2 ? tn_low : tn_v & 1 ? tn_four[3] : tn_four[2];
                const unsigned short v7 = tn_to_bf16(tn_value * ((tn_total == 0.0f) ? 0.0f : (1.0f / tn_total)));
                out_[tn_v] = v7;
              }
              *(uint2 *)(y0_ + (4480 * (item / 2) + 64 * (64 * (item % 2) + i_1) + tn_first)) = *(const uint2 *)out_;
            }
          }
        } else {
          #pragma unroll
          for (int tn_p = 0; tn_p < 4; tn_p++) {
            const int tn_first = (tn_p * 16) + (tn_lane & 1) * 8 + (tn_lane & 2) * 2;
            #pragma unroll
            for (int tn_u = 0; tn_u < 2; tn_u++) {
              const int tn_b = tn_u / 2, tn_h = tn_u % 2;
              const int i_2 = tn_who * 64 + tn_warp * 16 + tn_h * 8 + (tn_lane >> 2);
              const float tn_total = tn_whole[tn_h];
              const bool tn_there = 64 * (item % 2) + i_2 < 70;
              const float *const tn_d = tn_sum + tn_p * 8 + tn_h * 2;
              const float tn_x = __shfl_xor_sync(~0u, tn_right ? tn_d[0] : tn_d[4], 1);
              const float tn_y = __shfl_xor_sync(~0u, tn_right ? tn_d[1] : tn_d[5], 1);
              const float tn_four[4] = {tn_right ? tn_x : tn_d[0], tn_right ? tn_y : tn_d[1],
                                        tn_right ? tn_d[4] : tn_x, tn_right ? tn_d[5] : tn_y};
              if (tn_there) {
                __align__(16) unsigned short out__1[4];
                #pragma unroll
                for (int tn_v = 0; tn_v < 4; tn_v++) {
                  const int c_1 = tn_first + tn_v;
                  const float tn_low = tn_v & 1 ? tn_four[1] : tn_four[0];
                  const float tn_value = tn_v < 2 ? tn_low : tn_v & 1 ? tn_four[3] : tn_four[2];
                  const unsigned short v7_1 = tn_to_bf16(tn_value * ((tn_total == 0.0f) ? 0.0f : (1.0f / tn_total)));
                  out__1[tn_v] = v7_1;
                }
                *(uint2 *)(y0_ + (4480 * (item / 2) + 64 * (64 * (item % 2) + i_2) + tn_first)) = *(const uint2 *)out__1;
              }
            }
          }
        }
      } else {
        #pragma unroll
        for (int tn_p = 0; tn_p < 4; tn_p++) {
          const int tn_first = (tn_p * 16) + (tn_lane & 1) * 8 + (tn_lane & 2) * 2;
          #pragma unroll
          for (int tn_u = 0; tn_u < 2; tn_u++) {
            const int tn_b = tn_u / 2, tn_h = tn_u % 2;
            const int i_3 = tn_who * 64 + tn_warp * 16 + tn_h * 8 + (tn_lane >> 2);
            const float tn_total = tn_whole[tn_h];
            const bool tn_there = 64 * (item % 2) + i_3 < 70;
            const float *const tn_d = tn_sum + tn_p * 8 + tn_h * 2;
            const float tn_x = __shfl_xor_sync(~0u, tn_right ? tn_d[0] : tn_d[4], 1);
            const float tn_y = __shfl_xor_sync(~0u, tn_right ? tn_d[1] : tn_d[5], 1);
            const float tn_four[4] = {tn_right ? tn_x : tn_d[0], tn_right ? tn_y : tn_d[1],
                                      tn_right ? tn_d[4] : tn_x, tn_right ? tn_d[5] : tn_y};
            if (tn_there) {
              #pragma unroll 1
              for (int tn_v = 0; tn_v < 4; tn_v++) {
                const int c_2 = tn_first + tn_v;
                const float tn_low = tn_v & 1 ? tn_four[1] : tn_four[0];
                const float tn_value = tn_v < 2 ? tn_low : tn_v & 1 ? tn_four[3] : tn_four[2];
                const unsigned short v7_2 = tn_to_bf16(tn_value * ((tn_total == 0.0f) ? 0.0f : (1.0f / tn_total)));
                y0_[4480 * (item / 2) + 64 * (64 * (item % 2) + i_3) + c_2] = v7_2;
              }
            }
          }
        }
      }
    }
    tn_parity ^= 1u;
    if (tn_t + gridDim.x < items) __syncthreads();
  }
}

