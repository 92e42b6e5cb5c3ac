import torch, bench, engine, statistics
todo={'owner':engine.Engine(),'owner216':engine.Engine(flags=['-DTILE_CONSUMER_REGS=216']),'split':engine.Engine(mode='split'),'split208':engine.Engine(mode='split',flags=['-DTILE_CONSUMER_REGS=208']),'split216':engine.Engine(mode='split',flags=['-DTILE_CONSUMER_REGS=216']),'atomic':engine.Engine(mode='atomic'),'Sown':engine.Engine(algorithm='strassen'),'Satm':engine.Engine(algorithm='strassen',mode='atomic')}
bench.build([*todo.values()])
for m in (512,1024,1536,2048,3072,4096,6144,8192,16384):
    a,b,c=(torch.randn(m,m,device='cuda') for _ in range(3))
    fs=[lambda: torch.mm(a,b,out=c)]+[lambda e=e: e(a,b,c) for e in todo.values()]
    med=[statistics.median(x) for x in bench.measure(fs,9 if m<16000 else 4)]
    todo['split'](a,b,c); d=c.clone(); todo['split'](a,b,c); torch.cuda.synchronize()
    print(m,f'cublas {2*m**3/1e9/med[0]:.2f}', '  '.join(f'{n} {2*m**3/1e9/x:.2f} ({med[0]/x:.3f})' for n,x in zip(todo,med[1:])), 'repeatable', bool((c==d).all()),flush=True)
