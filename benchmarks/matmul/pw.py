import sys,torch,threading,time,pynvml as nv
sys.argv=['exp.py','v.txt','4096']
exec(open('exp.py').read().split("torch.manual_seed(0)")[0])
nv.nvmlInit(); h=nv.nvmlDeviceGetHandleByIndex(0)
for s in (8192,16384):
    a=torch.randn(s,s,device='cuda'); b=torch.randn(s,s,device='cuda'); c=torch.empty(s,s,device='cuda')
    for name,f in [('cublas',lambda: torch.mm(a,b,out=c))]+[(n,(lambda e=e: e(a,b,c))) for n,e in engs]:
        f(); torch.cuda.synchronize(); time.sleep(0.3)
        d=[];stop=False
        def mon():
            while not stop: d.append((nv.nvmlDeviceGetPowerUsage(h)/1e3,nv.nvmlDeviceGetClockInfo(h,1))); time.sleep(0.01)
        t=threading.Thread(target=mon); t.start()
        e=[torch.cuda.Event(enable_timing=True) for _ in range(2)]
        reps=int(1.2/(2*s**3/55e12)); e[0].record()
        for _ in range(reps): f()
        e[1].record(); torch.cuda.synchronize(); stop=True; t.join()
        k=d[len(d)//2:]
        print(s,name,f'{2*s**3/1e9/(e[0].elapsed_time(e[1])/reps):.2f} TF  P {sum(x[0] for x in k)/len(k):.0f} max {max(x[0] for x in k):.0f} clk {sum(x[1] for x in k)/len(k):.0f} min {min(x[1] for x in k)} T {nv.nvmlDeviceGetTemperature(h,0)}',flush=True)
