import sys, time, os
sys.path.insert(0,os.path.dirname(os.path.abspath(__file__)))
import torch, regression as r
be=r.TorchBackend(torch); bench=r.Bench(samples=7,budget_s=.5)
print(be.machine, flush=True)
class Prod(r.EagerDescent):
    def build(self):
        super().build(); d=self.problem.features
        self.w=torch.nn.Parameter(torch.empty(d,device='cuda')); self.b=torch.nn.Parameter(torch.empty(1,device='cuda'))
        self.optimizer=torch.optim.SGD([self.w,self.b],lr=.01)
        self.xs=self.x[:,0].contiguous() if d==1 else self.x
        ml=self.mse_loss
        self.f=(lambda x,y,w,b: ml(w*x+b,y)) if d==1 else (lambda x,y,w,b: ml(x@w+b,y))
    def loss(self): return self.f(self.xs,self.y,self.w,self.b)
class ProdC(Prod):
    def build(self):
        super().build(); self.f=torch.compile(self.f)
class ProdG(Prod):
    def build(self):
        super().build(); self.graph=self.capture()
    def queue(self): self.graph.replay()
class LinG(r.GraphDescent): pass
def expert(form,mode,coord=False):
    class E(r.ExpertDescent):
        def build(self):
            n,d=self.x.shape
            self.w,self.b=torch.empty(d,device='cuda'),torch.empty(1,device='cuda')
            rate=2*.01/n
            if d==1 and form=='mulsum': self.x=self.x[:,0].contiguous()
            def step(x,y,w,b,logged):
                if form=='matvec':
                    e=x@w+b-y; g=e@x
                elif d==1:
                    e=x*w+b-y; g=(x*e).sum()
                else:
                    e=(x*w).sum(1)+b-y; g=(x*e[:,None]).sum(0)
                l=(e*e).mean() if logged else None
                w.sub_(g,alpha=rate); b.sub_(e.sum(),alpha=rate)
                return l
            o={'coordinate_descent_tuning':True} if coord else None
            self.step=torch.compile(step,dynamic=False,options=o) if coord else torch.compile(step,dynamic=False,mode=mode)
            with torch.no_grad(): self.graph=self.capture()
    return E
M='max-autotune-no-cudagraphs'
V=[('eager linear',r.EagerDescent),('eager prod',Prod),('comp linear',r.CompiledDescent),('comp prod',ProdC),('graph linear',LinG),('graph prod',ProdG),
 ('ours expert',r.ExpertDescent),('exp mulsum',expert('mulsum',None)),('exp mulsum ma',expert('mulsum',M)),('exp matvec',expert('matvec',None)),('exp mulsum cd',expert('mulsum',None,True))]
for pts,d in ((100_000,1),(5_000_000,1),(5_000_000,16),(200_000_000,1)):
    t=time.time(); p=r.Problem(pts,r.train_points(pts),200,.01,.1,1,d)
    data=be.draw(p); tr,te=be.moments(data); ref=tr.descend(.01,200); torch.cuda.synchronize()
    print('== %d x %d draw+ref %.2fs peak %.1f GB'%(pts,d,time.time()-t,torch.cuda.max_memory_allocated()/1e9),flush=True)
    for name,k in V:
        if pts==100_000 and name.startswith('exp'): continue
        try:
            t=time.time(); de=k(torch,data.x[:data.train],data.y[:data.train],p); g=de.once(); b=time.time()-t
            c=r.Check.of(g,ref,r.tolerance(tr.n,200))
            us,wall=bench.gpu(de.timed)
            print('%-14s build %5.1fs  %9.1f us wall %9.1f (%7.2f/epoch) rel %.1e %s'%(name,b,r.median(us),r.median(wall),r.median(us)/200,c.max_rel_error,'' if c.passed else 'FAIL'),flush=True)
        except Exception as e: print(name,r.first_line(e),flush=True)
        de=None; t=time.time(); be.release(); rel=time.time()-t
    print('release %.2fs'%rel, 'parts',[(n,round(r.median(s),2)) for n,s in be.parts(data,p,bench)] if pts<1e8 else '')
    data=None; be.release()
