import torch, bench, statistics
todo={(l,v): bench.make(l, **bench.VARIANTS[v]) for l in bench.LAYOUTS for v in ('standard owner','standard split','strassen atomic')}
bench.build(todo.values())
n=8192
for l,(la,lb,_) in bench.LAYOUTS.items():
    a=bench.operand(n,n,{'k':'c','r':'r','s':'s'}[la],'normal'); b=bench.operand(n,n,{'r':'c','k':'r','s':'s'}[lb],'normal'); c=torch.empty(n,n,device='cuda')
    fs=[lambda: torch.mm(a,b,out=c)]+[lambda e=e: e(a,b,c) for (x,_),e in todo.items() if x==l]
    med=[statistics.median(x) for x in bench.measure(fs,5)]
    print(l, ' '.join(f'{2*n**3/1e9/x:.2f} ({med[0]/x:.3f})' for x in med), flush=True)
