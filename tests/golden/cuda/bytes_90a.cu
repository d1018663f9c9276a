//tn threads 256
//tn shared 99520
//tn persistent
//tn early
//tn map 0 u8 2 256 64 256 128 64
//tn map 3 u8 2 256 64 256 128 32
extern "C" __global__ void __launch_bounds__(256, 1) tn_kernel(const tn_u8 *__restrict__ x0, tn_u8 *y0_, const tn_i32 *__restrict__ column, const tn_i8 *__restrict__ w, long long items, unsigned char *scratch, long long scratch_each, int *fault, const __grid_constant__ tn_map tn_map_a, const __grid_constant__ tn_map tn_map_b) {
  extern __shared__ unsigned char tn_raw[];
  const unsigned tn_ring = (tn_shared_at(tn_raw) + 1023u) & ~1023u;
  const unsigned tn_bars = tn_ring + 98304u; /* a stage's full and empty */
  const int tn_blocks = (int)((256 + 127) / 128);
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&tn_map_a) : "memory");
    asm volatile("prefetch.tensormap [%0];" :: "l"(&tn_map_b) : "memory");
    for (int s = 0; s < 8; s++) {
      tn_bar_init(tn_bars + s * 16, 1);
      tn_bar_init(tn_bars + s * 16 + 8, 4);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    if (threadIdx.x == 0) {
      int tn_s = 0;
      unsigned tn_parity = 1; /* the ring begins empty */
      int tn_asked = 0;
      {
        const long long tn_t = blockIdx.x;
        const int item = (int)tn_t;
        const int tn_col = (int)(32 * item);
        for (; tn_asked < tn_blocks && tn_asked < 8; tn_asked++) {
          const int tn_k = tn_asked;
          const unsigned tn_at = tn_ring + tn_k * 12288u, tn_full = tn_bars + tn_k * 16u;
          tn_bar_expect(tn_full, 12288);
          tn_fetch(tn_at + 8192u, &tn_map_b, tn_k * 128, tn_col, tn_full);
        }
      }
      asm volatile("griddepcontrol.wait;" ::: "memory");
      for (long long tn_t = blockIdx.x; tn_t < items; tn_t += gridDim.x) {
        const int item_1 = (int)tn_t;
        const int tn_col = (int)(32 * item_1);
        const int tn_row = (int)(0);
        for (int tn_k = 0; tn_k < tn_blocks; tn_k++) {
          const unsigned tn_at = tn_ring + tn_s * 12288u, tn_full = tn_bars + tn_s * 16u;
          if (tn_asked > 0) {
            tn_asked--;
          } else {
            tn_bar_wait(tn_full + 8, tn_parity);
            tn_bar_expect(tn_full, 12288);
            tn_fetch(tn_at + 8192u, &tn_map_b, tn_k * 128, tn_col, tn_full);
          }
          tn_fetch(tn_at, &tn_map_a, tn_k * 128, tn_row, tn_full);
          if (++tn_s == 8) tn_s = 0, tn_parity ^= 1u;
        }
      }
      asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    }
  } else {
    const int tn_who = threadIdx.x / 128 - 1, tn_lane = threadIdx.x % 32;
    const int tn_warp = threadIdx.x % 128 / 32;
    int tn_sum[1][16];
    asm volatile("griddepcontrol.wait;" ::: "memory");
    int tn_s = 0;
    unsigned tn_parity = 0;
    for (long long tn_t = blockIdx.x; tn_t < items; tn_t += gridDim.x) {
      const int item_2 = (int)tn_t;
            __align__(16) int early[2][4];
        #pragma unroll
        for (int tn_p = 0; tn_p < 2; tn_p++) {
          const int tn_first = (tn_p * 16) + (tn_lane & 1) * 8 + (tn_lane & 2) * 2;
            if ((unsigned long long)column % 16 == 0) *(uint4 *)early[tn_p] = __ldg((const uint4 *)(column + (tn_first + 32 * item_2)));
        }
      int tn_before = -1;
      for (int tn_k = 0; tn_k < tn_blocks; tn_k++) {
        const unsigned tn_at = tn_ring + tn_s * 12288u;
        tn_bar_wait(tn_bars + tn_s * 16u, tn_parity);
        const unsigned long long tn_a = tn_operand(tn_at + tn_who * 8192u);
        const unsigned long long tn_b = tn_operand(tn_at + 8192u);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        #pragma unroll
        for (int q = 0; q < 4; q++)
          tn_product(tn_sum[0], tn_a + q * 2 + 0, tn_b + q * 2, tn_k | q);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (tn_before >= 0 && tn_lane == 0) tn_bar_arrive(tn_bars + tn_before * 16u + 8);
        tn_before = tn_s;
        if (++tn_s == 8) tn_s = 0, tn_parity ^= 1u;
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      #pragma unroll
      for (int q = 0; q < 16; q++) asm volatile("" : "+r"(tn_sum[q / 16][q % 16]) :: "memory");
      if (tn_before >= 0 && tn_lane == 0) tn_bar_arrive(tn_bars + tn_before * 16u + 8);
      const bool tn_right = tn_lane & 1;
      if (((unsigned long long)column % 16 | (unsigned long long)y0_ % 4) == 0) {
        #pragma unroll
        for (int tn_p = 0; tn_p < 2; tn_p++) {
          const int tn_first = (tn_p * 16) + (tn_lane & 1) * 8 + (tn_lane & 2) * 2;
          #pragma unroll
          for (int tn_u = 0; tn_u < 2; tn_u++) {
            const int tn_b = tn_u / 2, tn_h = tn_u % 2;
            const int i = tn_who * 64 + tn_warp * 16 + tn_h * 8 + (tn_lane >> 2);
            const int *const tn_d = tn_sum[tn_b] + tn_p * 8 + tn_h * 2;
            const int tn_x = __shfl_xor_sync(~0u, tn_right ? tn_d[0] : tn_d[4], 1);
            const int tn_y = __shfl_xor_sync(~0u, tn_right ? tn_d[1] : tn_d[5], 1);
            const int tn_four[4] = {tn_right ? tn_x : tn_d[0], tn_right ? tn_y : tn_d[1],
                                      tn_right ? tn_d[4] : tn_x, tn_right ? tn_d[5] : tn_y};
            __align__(16) unsigned char out_[4];
            #pragma unroll
            for (int tn_v = 0; tn_v < 4; tn_v++) {
              const int j = tn_first + tn_v;
              const int tn_low = tn_v & 1 ? tn_four[1] : tn_four[0];
              const int tn_value = tn_v < 2 ? tn_low : tn_v & 1 ? tn_four[3] : tn_four[2];
              const float t = (float)(int)((unsigned)tn_value + (unsigned)early[tn_p][tn_v]) * 0.01f;
              const float t_1 = ((-7.0f) < t) ? t : (-7.0f);
              out_[tn_v] = (unsigned char)(int)((unsigned)(int)tn_round_f32((t_1 < 248.0f) ? t_1 : 248.0f) + (unsigned)7);
            }
            *(unsigned *)(y0_ + (64 * i + tn_first + 32 * item_2)) = *(const unsigned *)out_;
          }
        }
      } else {
        #pragma unroll
        for (int tn_p = 0; tn_p < 2; tn_p++) {
          const int tn_first = (tn_p * 16) + (tn_lane & 1) * 8 + (tn_lane & 2) * 2;
          #pragma unroll
          for (int tn_u = 0; tn_u < 2; tn_u++) {
            const int tn_b = tn_u / 2, tn_h = tn_u % 2;
            const int i_1 = tn_who * 64 + tn_warp * 16 + tn_h * 8 + (tn_lane >> 2);
            const int *const tn_d = tn_sum[tn_b] + tn_p * 8 + tn_h * 2;
            const int tn_x = __shfl_xor_sync(~0u, tn_right ? tn_d[0] : tn_d[4], 1);
            const int tn_y = __shfl_xor_sync(~0u, tn_right ? tn_d[1] : tn_d[5], 1);
            const int tn_four[4] = {tn_right ? tn_x : tn_d[0], tn_right ? tn_y : tn_d[1],
                                      tn_right ? tn_d[4] : tn_x, tn_right ? tn_d[5] : tn_y};
            #pragma unroll 1
            for (int tn_v = 0; tn_v < 4; tn_v++) {
              const int j_1 = tn_first + tn_v;
              const int tn_low = tn_v & 1 ? tn_four[1] : tn_four[0];
              const int tn_value = tn_v < 2 ? tn_low : tn_v & 1 ? tn_four[3] : tn_four[2];
              const float t_2 = (float)(int)((unsigned)tn_value + (unsigned)column[j_1 + 32 * item_2]) * 0.01f;
              const float t_3 = ((-7.0f) < t_2) ? t_2 : (-7.0f);
              y0_[64 * i_1 + j_1 + 32 * item_2] = (unsigned char)(int)((unsigned)(int)tn_round_f32((t_3 < 248.0f) ? t_3 : 248.0f) + (unsigned)7);
            }
          }
        }
      }
    }
  }
}

