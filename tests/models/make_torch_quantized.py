#!/usr/bin/env python3
"""make_torch_quantized.py -- writes tests/models/torch/quantized.pt2 and .npz: a program as PT2E's convert leaves it, with fake quantisation, and what PyTorch computes.

usage: make_torch_quantized.py      (needs torch; the files are kept in the repository)
"""
import os
import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch"))
Q=torch.ops.quantized_decomposed
class Tiny(torch.nn.Module):
    def __init__(s):
        super().__init__()
        g=torch.Generator().manual_seed(1)
        s.register_buffer('w1',torch.randint(-127,128,(8,3,3,3),generator=g,dtype=torch.int8))
        s.register_buffer('s1',torch.rand(8,generator=g)*.01+.005)
        s.register_buffer('z1',torch.zeros(8,dtype=torch.int64))
        s.register_buffer('b1',torch.randn(8,generator=g)*.1)
        s.register_buffer('w2',torch.randn(10,8,generator=g))
        s.register_buffer('s2',torch.rand(10,generator=g)*.01+.02)
        s.register_buffer('z2',torch.zeros(10,dtype=torch.int32))
        s.register_buffer('b2',torch.randn(10,generator=g)*.1)
    def forward(s,x):
        x=Q.quantize_per_tensor(x,0.03,-3,-128,127,torch.int8)
        x=Q.dequantize_per_tensor(x,0.03,-3,-128,127,torch.int8)
        w=Q.dequantize_per_channel(s.w1,s.s1,s.z1,0,-127,127,torch.int8)
        y=torch.relu(torch.conv2d(x,w,s.b1,padding=1))
        y=Q.quantize_per_tensor(y,0.05,0,0,127,torch.uint8)
        y=Q.dequantize_per_tensor(y,0.05,0,0,127,torch.uint8)
        y=torch.fake_quantize_per_tensor_affine(y.mean((2,3)),0.02,0,0,255)
        w=torch.fake_quantize_per_channel_affine(s.w2,s.s2,s.z2,0,-127,127)
        return torch.nn.functional.linear(y,w,s.b2)
m=Tiny().eval(); x=torch.randn(2,3,6,6,generator=torch.Generator().manual_seed(2))
torch.export.save(torch.export.export(m,(x,)),'quantized.pt2')
np.savez('quantized.npz',**{'in_x':x.numpy(),'out_0':m(x).numpy()})
