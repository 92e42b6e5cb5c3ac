import torch, bench, engine, statistics
todo={f'{n} e{e}': engine.Engine(vector=v, flags=[f'-DTILE_EDGE={e}'], **kw) for n,kw in (('std',{}),('stdatm',dict(mode='atomic')),('atm',dict(mode='atomic',algorithm='strassen'))) for e in (1,2) for v in (True,)}
todoU={f'{n} e{e}': engine.Engine(vector=v, flags=[f'-DTILE_EDGE={e}'], **kw) for n,kw in (('std',{}),('stdatm',dict(mode='atomic')),('atm',dict(mode='atomic',algorithm='strassen'))) for e in (1,2) for v in (False,)}
bench.build([*todo.values(),*todoU.values()])
for m in (4100,5000,4097):
    t=todo if m%4==0 else todoU
    a,b,c=(torch.randn(m,m,device='cuda') for _ in range(3))
    fs=[lambda: torch.mm(a,b,out=c)]+[lambda e=e: e(a,b,c) for e in t.values()]
    med=[statistics.median(x) for x in bench.measure(fs,7)]
    print(m,f'cublas {2*m**3/1e9/med[0]:.2f}', '  '.join(f'{n} {2*m**3/1e9/x:.2f} ({med[0]/x:.3f})' for n,x in zip(t,med[1:])))
