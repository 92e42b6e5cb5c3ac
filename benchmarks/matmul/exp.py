import torch, sys, os, time, json
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import engine as E, cu, sass_order as S, patch_yield as Y
torch.backends.cuda.matmul.allow_tf32 = False
def timer(fs, reps):
    """interleaved medians, ms"""
    for f in fs: f()
    torch.cuda.synchronize()
    ts=[[] for _ in fs]
    for _ in range(reps):
        for i,f in enumerate(fs):
            e=[torch.cuda.Event(enable_timing=True) for _ in range(2)]
            e[0].record(); f(); e[1].record(); torch.cuda.synchronize()
            ts[i].append(e[0].elapsed_time(e[1]))
    return [sorted(t)[len(t)//2] for t in ts]
variants=eval(open(sys.argv[1]).read()) # list of (name, kwargs)
sizes=[int(x) for x in sys.argv[2].split(',')]
from concurrent.futures import ThreadPoolExecutor
engs=[(n,E.TwoLevel(**{k:v for k,v in kw.items() if k!='two'}) if kw.get('two') else E.Engine(**kw)) for n,kw in variants]
with ThreadPoolExecutor(8) as ex: list(ex.map(lambda e: e[1].build(), engs))
torch.manual_seed(0)
for n,e in engs:
    e.load(); out=[]
    for (M,N,K) in ((1000,1100,900),(257,511,1030),(256,512,1024),(508,516,520),(4096,4096,512)):
        a=torch.randn(M,K,device='cuda'); b=torch.randn(K,N,device='cuda')
        if (K%4==0 and N%4==0) or 'scal' in n:
            c=torch.full((M,N),float('nan'),device='cuda'); e(a,b,c); out.append('%.1e'%E.relative_error(c,a,b))
            c=torch.randn(M,N,device='cuda'); c0=c.clone(); e(a,b,c,0.5,-2.0); out.append('%.1e'%E.relative_error(c,a,b,.5,-2.,c0))
    print(n,'err',out,flush=True)
for s in sizes:
    a=torch.randn(s,s,device='cuda'); b=torch.randn(s,s,device='cuda'); c=torch.empty(s,s,device='cuda')
    fs=[lambda: torch.mm(a,b,out=c)]+[(lambda e=e: e(a,b,c)) for _,e in engs]
    ts=timer(fs, 3 if s>=16384 else 7 if s>=8192 else 11)
    fl=2*s**3/1e9
    print(s, f'cublas {fl/ts[0]:.2f} TF |', '  '.join(f'{n} {fl/t:.2f} ({ts[0]/t:.3f}x)' for (n,_),t in zip(engs,ts[1:])),flush=True)
