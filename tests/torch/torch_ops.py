#!/usr/bin/env python3
"""torch_ops.py TENON [export|decomposed|trace [TEXT]] [--record ARCHIVE] -- ATen operators against PyTorch itself; with TEXT, the lines that have it.

Needs PyTorch and numpy, so it is not part of `make test`.  Each expression below becomes part of a module, which is written as a program
of torch.export (as it is, or decomposed) or traced to TorchScript, run by TENON, interpreted and compiled, and compared in type, shape and value.
With --record the programs of all three kinds and PyTorch's results are written instead, for tests/formats/recorded.py.
"""
import os, subprocess, sys, tempfile, warnings

import numpy as np
import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")
torch.manual_seed(0)
INPUTS = {
    "x": torch.randn(3, 4), "y": torch.rand(3, 4) + 0.5, "im": torch.randn(2, 4, 9, 8), "seq": torch.randn(2, 5, 6),
    "idx": torch.tensor([[0, 2, 1, 3], [3, 1, 0, 0], [1, 1, 2, 2]]), "vol": torch.randn(1, 2, 4, 6, 5),
    "i3": torch.randint(-5, 6, (3, 4)),
}
# One module a line; expressions are separated by bars.
EXPRESSIONS = '''abs(x)|-x|x.sign()|torch.acos(y-1)|torch.acosh(y+1)|torch.asin(y-1)|torch.asinh(x)|torch.atan(x)|torch.atanh(y-1)|x.cos()|x.cosh()|x.erf()|x.exp()|y.log()|x.sigmoid()|x.sin()|x.sinh()|y.sqrt()|x.tan()|x.tanh()|y.reciprocal()
x.ceil()|x.floor()|x.round()|x.trunc()|x.frac()|x.logical_not()|i3.bitwise_not()|x.isnan()|x.isinf()|torch.isfinite(x)|y.rsqrt()|x.square()|x.expm1()|torch.log1p(y)|torch.log1p(y*1e-3)|y.log2()|y.log10()|x.exp2()|x.erfc()
torch.add(x,y,alpha=2)|x+2|x-y|2-x|x-1.5|x*y|x*2|i3*2.5|i3+x|i3/2|x/y|torch.div(x,y,rounding_mode='floor')|torch.div(x,y,rounding_mode='trunc')|torch.div(i3,3,rounding_mode='floor')|torch.div(i3,2,rounding_mode='trunc')|i3//2|torch.remainder(x,y)|torch.remainder(i3,3)|torch.fmod(x,y)|torch.fmod(i3,3)|y**x|x**2|x**3|2**x
torch.maximum(x,y)|torch.minimum(x,y)|x==y|x!=y|x<y|x<=y|x>y|x>=y|x>0|x==0|i3>=2|torch.logical_and(x,y)|torch.logical_or(x,i3)|torch.logical_xor(x,i3)|i3&3|torch.bitwise_or(i3,idx)|i3^idx|i3<<1|torch.bitwise_right_shift(i3,1)
torch.atan2(x,y)|torch.atan2(x,-y)|torch.where(x>0,x,y)|torch.where(x>0,x,1.0)|x.masked_fill(x>0,-1.0)|x.clamp(-0.5,0.5)|x.clamp(min=0)|x.clamp(max=0.2)|torch.clamp_min(x,0.1)|torch.clamp_max(x,0.1)|torch.addcmul(x,y,y,value=0.5)|torch.addcdiv(x,x,y,value=2)|torch.lerp(x,y,0.3)
F.silu(x)|F.softplus(x)|F.softplus(x*30,2,10)|F.elu(x)|F.elu(x,0.5)|F.celu(x,0.7)|F.leaky_relu(x,0.1)|F.gelu(x)|F.gelu(x,approximate='tanh')|F.hardsigmoid(x*4)|F.hardtanh(x)|F.relu6(x*8)|F.logsigmoid(x)|F.threshold(x,0.1,3.0)|F.prelu(im,torch.tensor([.1,.2,.3,.4]))|F.glu(x)|F.mish(x)|F.selu(x)|F.hardswish(x)
x.sum()|x.sum(1)|x.sum((0,1),keepdim=True)|i3.sum()|x.mean()|im.mean((2,3))|x.prod()|x.prod(1)|x.amax(1)|x.amin((0,1))|x.max()|x.min()|x.max(1)[0]|x.max(1)[1]|x.min(0,keepdim=True)[0]|x.argmax()|x.argmax(1)|x.argmin(0,keepdim=True)|(x>0).any()|(x>0).any(1)|(x>-9).all()|(x>0).all(0)
x.var()|x.var(1)|x.var(0,unbiased=False)|x.std()|x.std(1,keepdim=True)|torch.var_mean(x,1)[0]|torch.var_mean(x,1)[1]|torch.norm(x,2,1)|torch.linalg.vector_norm(x,1,dim=1)|torch.linalg.vector_norm(x,3,dim=1)|torch.linalg.vector_norm(x)|x.logsumexp(1)|x.cumsum(1)|i3.cumsum(0)|x.cumprod(1)|F.cosine_similarity(x,y)|x.topk(2)[0]|x.topk(2)[1]|x.topk(2,0,False)[0]|x.sort(1)[0]|x.sort(1,descending=True)[1]|x.argsort(0)
x.view(2,6)|x.reshape(-1)|im.flatten(1)|im.flatten(2,3)|im.flatten()|x.unflatten(1,(2,2))|im.permute(0,2,3,1)|x.t()|im.transpose(1,3)|im.mT|im.movedim(1,-1)|x.unsqueeze(1)|vol.squeeze(0)|vol.squeeze()|x[:,None].expand(3,5,4)|x.expand(2,-1,-1)|x.repeat(2,1)|x.repeat(2,1,3)|x.tile((2,))|x.repeat_interleave(2,1)|x.repeat_interleave(3)
x[1]|x[:,1:3]|x[::2]|x[-1,-2:]|x.narrow(1,1,2)|x.split(2,1)[1]|im.split(3,2)[2]|x.split([1,3],1)[1]|im.chunk(3,2)[1]|x.unbind(0)[1]|torch.cat([x,y],1)|torch.stack([x,y],1)|x.flip(0)|x.flip((0,1))|x.roll(1,1)|x.roll((1,-1),(0,1))|x.tril()|x.triu(1)|F.pixel_shuffle(im,2)|F.pixel_unshuffle(im[:,:,:8],2)|im.diagonal(0,2,3)|im.diagonal(1,1,2)
x.select(1,2)|x.index_select(1,idx[0])|F.embedding(idx,x.t())|x.gather(1,idx)|x.scatter(1,idx,y)|x.scatter(1,idx[:2],1.5)|x.scatter_add(1,idx,y)|torch.scatter_reduce(x,1,idx,y,'amax')|x[idx[0][:3]%3]|x[:,idx[0]]|x[idx[0]%3,idx[1]]|im[:,idx[0],:,idx[1]]|im[:,idx[0],idx[1]]|x[x>0]|torch.index_put(x,(idx[0]%3,),y[0])|torch.index_put(x,(torch.tensor([0,0]),),y[:2],accumulate=True)|torch.where(x>0)[0].sum()|x.nonzero()|torch.masked_select(x,y>1)|F.one_hot(idx,5)|torch.slice_scatter(x,y[:1],0,1,2)|torch.select_scatter(x,y[0],0,1)
torch.full((2,3),1.5)|torch.zeros(2,3)|torch.ones_like(x)|torch.zeros_like(i3)|torch.full_like(x,2)|x.new_zeros(2)|x.new_full((2,),3.)|torch.arange(5)|torch.arange(1,6)|torch.arange(1,7,2)|torch.arange(0,1,0.25)|torch.linspace(0,1,5)|torch.eye(3)|torch.eye(2,3)|x.to(torch.float64)|x.to(torch.int64)|i3.float()|x.type_as(i3)|x.half().float()|(x>0).float()|torch.scalar_tensor(3.)
F.pad(x,(1,2))|F.pad(im,(1,1,2,0),value=3.)|F.pad(im,(1,1,2,2),mode='reflect')|F.pad(im,(1,1,2,0),mode='replicate')|F.pad(seq,(1,2),mode='reflect')|F.interpolate(im,scale_factor=2)|F.interpolate(im,size=(5,7))|F.interpolate(im,scale_factor=2,mode='bilinear')|F.interpolate(im,size=(5,11),mode='bilinear',align_corners=True)|F.interpolate(im,scale_factor=1.5,mode='bicubic')|F.interpolate(seq,scale_factor=2,mode='linear')|F.interpolate(vol,scale_factor=2)|F.grid_sample(im,torch.tanh(im[:,:2,:5,:6].permute(0,2,3,1)),align_corners=False)|F.grid_sample(im,torch.tanh(im[:,:2].permute(0,2,3,1)),mode='nearest',padding_mode='border',align_corners=True)
F.batch_norm(im,torch.zeros(4),torch.ones(4),None,None)|F.instance_norm(im)|F.layer_norm(seq,(6,))|F.layer_norm(im,(9,8),eps=1e-3)|F.rms_norm(seq,(6,))|F.group_norm(im,2)|x.softmax(1)|x.softmax(0)|x.log_softmax(-1)|F.normalize(x)
torch._scaled_mm(seq.reshape(-1)[:32].reshape(2,16).to(torch.float8_e4m3fn),im[0].reshape(-1)[:256].reshape(16,16).to(torch.float8_e4m3fn).t(),torch.tensor(.5),torch.tensor(2.),out_dtype=torch.bfloat16).float()|torch._int_mm(im[0,0].reshape(-1)[:64].reshape(4,16).mul(50).to(torch.int8),im[1].reshape(-1)[:256].reshape(16,16).mul(50).to(torch.int8).t())
x@y.t()|torch.mm(x,y.t())|torch.bmm(seq,seq.mT)|torch.matmul(seq,torch.ones(6))|x[0].dot(y[0])|F.linear(x,y)|F.linear(seq,torch.ones(3,6),torch.ones(3))|torch.addmm(torch.ones(3),x,y.t(),beta=2,alpha=.5)|torch.baddbmm(torch.ones(2,5,5),seq,seq.mT)|torch.outer(x[0],y[0])|torch.einsum('bij,bkj->bik',seq,seq)
F.conv1d(seq,torch.ones(3,5,2))|F.conv2d(im,torch.ones(6,2,3,3),torch.ones(6),2,1,1,2)|F.conv2d(im,torch.ones(4,4,3,2),padding='same')|F.conv2d(im[0],torch.ones(4,4,3,3),padding=1)|F.conv3d(vol,torch.ones(2,2,2,2,2))|F.conv_transpose2d(im,torch.ones(4,3,3,3),stride=2,padding=1,output_padding=1)|F.conv_transpose1d(seq,torch.ones(5,2,3),stride=2)|F.scaled_dot_product_attention(im,im,im)|F.scaled_dot_product_attention(im,im,im,is_causal=True)|F.scaled_dot_product_attention(seq,seq,seq)|F.scaled_dot_product_attention(im,im,im,attn_mask=torch.ones(9,9).tril().bool())|F.scaled_dot_product_attention(seq,seq,seq,is_causal=True)|torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(im,im,im)[0]|torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(im,im,im,0.0,True,scale=0.3)[0]|torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(im,im,im,attn_mask=im[:1,:1,:,:1].expand(2,4,9,9).contiguous())[0]
F.max_pool1d(seq,2)|F.max_pool2d(im,3,2,1)|F.max_pool2d(im,2,ceil_mode=True)|F.max_pool2d(im[0],2)|F.max_pool3d(vol,2)|F.avg_pool1d(seq,2)|F.avg_pool2d(im,3,2,1)|F.avg_pool2d(im,3,2,1,count_include_pad=False)|F.avg_pool2d(im,2,ceil_mode=True)|F.avg_pool3d(vol,2)|F.adaptive_avg_pool1d(seq,3)|F.adaptive_avg_pool2d(im,1)|F.adaptive_avg_pool2d(im,(3,4))|F.adaptive_avg_pool2d(im,(5,3))|F.adaptive_max_pool2d(im,(3,4))|F.adaptive_avg_pool3d(vol,(2,3,1))
torch.rnn_tanh_cell(seq[:,0],torch.zeros(2,3),torch.ones(3,6)*.1,torch.ones(3,3)*.1)|torch.lstm_cell(seq[:,0],(torch.ones(2,3),torch.ones(2,3)),torch.ones(12,6)*.1,torch.ones(12,3)*.2)[0]
x.unfold(1,2,1)|im.unfold(2,3,2)|im.unfold(-1,4,3)|F.unfold(im,3)|F.unfold(im,(3,2),dilation=2,padding=1,stride=2)|F.unfold(im[0],2)|F.fold(F.unfold(im,3,padding=1),(9,8),3,padding=1)|F.fold(F.unfold(im,2,stride=2),(8,8),2,stride=2)|F.fold(F.unfold(im[0],3),(9,8),3)|torch.as_strided(x,(3,2),(4,2))|torch.as_strided(x,(2,2,2),(1,0,3),1)
torch.searchsorted(y.sort(1)[0],x)|torch.searchsorted(torch.tensor([-1.,0.,0.,1.]),x,right=True)|torch.searchsorted(i3[0].sort()[0],i3,side='right',out_int32=True)|torch.searchsorted(y,x,sorter=y.argsort(1))|torch.bucketize(i3,torch.arange(-3,4))|torch.bucketize(i3,torch.arange(-3,4),right=True)|torch.bucketize(x*float('nan'),torch.arange(3.))|torch.searchsorted(torch.arange(5.),2.5)
torch.unique(i3)|torch.unique(i3,return_inverse=True)[1]|torch.unique(idx,return_counts=True)[1]|torch.unique(idx%2,dim=1)|torch.unique(idx[:,:2]%2,dim=0,return_inverse=True)[1]
torch.ops.aten.index_put(im,[None,idx[0]%4],y[0,0])|torch.ops.aten.index_put(im,[None,idx[0],None,idx[1]],y[0].reshape(4,1,1))|torch.ops.aten.index_put(im,[None,None,idx[0],idx[1]],y[0])|torch.ops.aten.index_put(im,[None,None,idx[0][:,None],idx[1]],y[0],accumulate=True)|torch.index_put(x,(x>0,),y[x>0])|torch.ops.aten.index_put(x,[None,torch.tensor([True,False,True,False])],y[:,:2])|im[:,torch.tensor([True,False,True,True])]|im[torch.tensor([True,False])][:,0]|torch.slice_scatter(x,y[:2],0,0,3,2)|torch.slice_scatter(x,y[:,:2],1,1,None,2)
x.masked_scatter(x>0,y)|torch.cdist(x,y)|torch.cdist(seq,seq[:1,:2],p=1.)|torch.cdist(x,y,p=3.)|torch.cdist(x,y,p=float('inf'))|torch.pdist(x)|F.pdist(y,1.)|torch.empty_strided((2,3),(3,1)).shape[0]*x
F.embedding_bag(idx,seq[0])|F.embedding_bag(idx,seq[0],mode='sum')|F.embedding_bag(idx,seq[0],mode='max')|F.embedding_bag(idx.reshape(-1),seq[0],torch.tensor([0,5,5,7]),mode='mean')|F.embedding_bag(idx.reshape(-1),seq[0],torch.tensor([0,3,12]),mode='sum',include_last_offset=True)|F.embedding_bag(idx,seq[0],mode='sum',per_sample_weights=y)|F.embedding_bag(idx,seq[0],mode='max',padding_idx=1)|F.embedding_bag(idx,seq[0],mode='mean',padding_idx=0)
torch.view_as_real(torch.fft.rfft(seq))|torch.fft.rfft(seq,n=8).abs()|torch.fft.rfft(seq,dim=1,norm='ortho').real|torch.fft.irfft(torch.fft.rfft(seq))|torch.fft.irfft(torch.fft.rfft(seq,dim=1),n=5,dim=1,norm='ortho')|torch.view_as_real(torch.fft.fft(seq,norm='forward'))|torch.fft.ifft(torch.fft.fft(seq)).imag|torch.fft.ifft(torch.fft.fft(seq,dim=1),dim=1,norm='forward').real|torch.view_as_real(torch.fft.fft2(im))|torch.fft.irfft2(torch.fft.rfft2(im))|torch.fft.ifft2(torch.fft.fft2(im)).real|torch.view_as_real(torch.fft.rfftn(vol,dim=(2,3,4)))|torch.fft.irfftn(torch.fft.rfftn(vol))|torch.view_as_real(torch.fft.fftshift(torch.fft.fft(seq)))|torch.fft.ifftshift(seq,dim=1)|torch.hamming_window(7)|torch.blackman_window(6,periodic=False)
torch.view_as_real(torch.view_as_complex(seq.reshape(2,5,3,2))*torch.polar(y[0,:3],x[0,:3]))|torch.view_as_real(torch.complex(x,y)+x)|torch.view_as_real(torch.complex(x,y)/torch.complex(y,x))|torch.view_as_real(torch.complex(x,y)/2)|torch.complex(x,y).angle()|torch.view_as_real(torch.complex(x,y).conj()*torch.complex(y,y))|torch.complex(x,y).t().reshape(2,6).imag|torch.view_as_real(torch.stack([torch.complex(x,y),torch.complex(y,x)],1))|torch.complex(x,y)[1:,::2].abs()|torch.complex(x,y).sum(1).real|torch.complex(x,y).abs()**2
torch.stft(im[0,:,:,0].repeat(1,3),8,3,window=torch.hann_window(8),return_complex=True).abs()|torch.view_as_real(torch.stft(im[0,:,:,0].repeat(1,3),8,return_complex=True,normalized=True))|torch.view_as_real(torch.stft(im[0,0,:,0].repeat(3),8,4,6,torch.hann_window(6),center=False,onesided=False,return_complex=True))|torch.stft(im[0,:,:,0].repeat(1,3),8,pad_mode='constant',return_complex=True).abs()'''
TARGETS = ("interp", "cpu")


def module(expressions):
    text = "class M(torch.nn.Module):\n  def forward(self, %s):\n    return (%s,)\n" % (
        ", ".join(INPUTS), ", ".join(f"({e})" for e in expressions))
    names = {"torch": torch, "F": F}
    exec(text, names)  # our own text, from above
    return names["M"]()


def write(m, kind, path):
    inputs = tuple(INPUTS.values())
    if kind == "trace":
        torch.jit.trace(m, inputs, check_trace=False).save(path)
        return
    program = torch.export.export(m, inputs)
    torch.export.save(program.run_decompositions() if kind == "decomposed" else program, path)


def differences(tenon, expressions, kind, folder):
    """Lines that say what differs; [] when all is equal."""
    m = module(expressions)
    want = m(*INPUTS.values())
    path, out = os.path.join(folder, "m.pt2"), os.path.join(folder, "out.npz")
    write(m, kind, path)
    args = []
    for i, v in enumerate(INPUTS.values()):
        np.save(os.path.join(folder, f"{i}.npy"), v.numpy())
        args += ["--input", f"{i}={folder}/{i}.npy"]
    lines = []
    for target in TARGETS:
        p = subprocess.run([tenon, "run", path, *args, "--target", target, "-o", out], capture_output=True, text=True)
        if p.returncode: return [f"{target}: {p.stderr.strip()}"]
        got = np.load(out)
        for e, name, w in zip(expressions, got.files, want):
            a, b = got[name], w.numpy()
            if a.shape != b.shape or a.dtype != b.dtype:
                lines.append(f"{target}: {e}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
            elif not np.allclose(a, b, 1e-5, 2e-6 if target == "interp" else 1e-5, equal_nan=True):
                lines.append(f"{target}: {e}: other values")
    return lines


def record(archive):
    """The programs of every line.  Of what one kind cannot write the expressions are taken one by one."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "formats"))
    import recorded
    recorder = recorded.Recorder()

    def add(expressions, kind, folder):
        m, path = module(expressions), os.path.join(folder, "m")
        write(m, kind, path + ".pt2")
        recorder.add(f"{kind}: {'|'.join(expressions)}", open(path + ".pt2", "rb").read(), ".pt2", [v.numpy() for v in INPUTS.values()], [w.numpy() for w in m(*INPUTS.values())], (2e-6, 1e-5, 0))

    with tempfile.TemporaryDirectory() as folder:
        for kind in ("export", "decomposed", "trace"):
            for line in EXPRESSIONS.split("\n"):
                try: add(line.split("|"), kind, folder)
                except Exception:  # PyTorch cannot write one of them
                    for e in line.split("|"):
                        try: add([e], kind, folder)
                        except Exception as why: print(f"{kind}: {e}: {str(why).splitlines()[0][:100]}")
    recorder.save(archive)
    return 0


def main():
    if "--record" in sys.argv: return record(sys.argv[sys.argv.index("--record") + 1])
    tenon, kind = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "export"
    good = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for line in EXPRESSIONS.split("\n"):
            if len(sys.argv) > 3 and sys.argv[3] not in line: continue
            expressions = line.split("|")
            if not differences(tenon, expressions, kind, folder):
                good += len(expressions)
                continue
            for e in expressions:  # one by one, to name those at fault
                found = differences(tenon, [e], kind, folder)
                print("\n".join(found), end="\n" if found else "")
                good, bad = good + (not found), bad + bool(found)
    print(f"{good} passed, {bad} failed")
    return bad > 0


sys.exit(main())
