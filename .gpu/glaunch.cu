#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
__global__ void k(int*p){ if(p) *p=1; }
int main(int c,char**v){ const char*m=v[1]; cudaStream_t s; cudaStreamCreate(&s); cudaGraph_t g; cudaGraphExec_t e; cudaGraphCreate(&g,0);
 int r=0; void *q=0;
 if(!strncmp(m,"mem",3)){ cudaGraphNode_t a,b,kn; cudaMemAllocNodeParams n={}; n.poolProps.allocType=cudaMemAllocationTypePinned; n.poolProps.location.type=cudaMemLocationTypeDevice; n.bytesize=4096;
  cudaGraphAddMemAllocNode(&a,g,0,0,&n); q=n.dptr; if(!strcmp(m,"mem-freed")) cudaGraphAddMemFreeNode(&b,g,&a,1,n.dptr);
  if(!strcmp(m,"mem-kernel")){ cudaKernelNodeParams kp={}; void*args[]={&q}; kp.func=(void*)k; kp.gridDim=1; kp.blockDim=1; kp.kernelParams=args; cudaGraphAddKernelNode(&kn,g,&a,1,&kp);} }
 else { cudaGraphNode_t kn; cudaKernelNodeParams kp={}; void*args[]={&q}; kp.func=(void*)k; kp.gridDim=1; kp.blockDim=1; kp.kernelParams=args; cudaGraphAddKernelNode(&kn,g,0,0,&kp);}
 r=cudaGraphInstantiate(&e,g,0); printf("%s inst %d",m,r);
 if(!strcmp(m,"null")){ printf(" %d",cudaGraphLaunch(0,s)); }
 if(!strcmp(m,"drv-null")){ printf(" %d",cuGraphLaunch(0,s)); }
 if(!strcmp(m,"badstream")){ cudaStream_t t; cudaStreamCreate(&t); cudaStreamBeginCapture(t,cudaStreamCaptureModeThreadLocal); printf(" %d",cudaGraphLaunch(e,t)); cudaStreamSynchronize(t); printf(" %d",cudaGraphLaunch(e,t)); cudaGraph_t z; cudaStreamEndCapture(t,&z);}
 if(!strcmp(m,"nested")){ cudaStream_t t; cudaStreamCreate(&t); cudaStreamBeginCapture(t,cudaStreamCaptureModeGlobal); printf(" %d",cudaGraphLaunch(e,s)); cudaGraph_t z; cudaStreamEndCapture(t,&z);}
 if(!strcmp(m,"destroyed")){ }
 for(int i=0;i<3;i++){ printf(" %d",(int)cudaGraphLaunch(e,s)); fflush(stdout);} 
 if(!strcmp(m,"mem-free-outside")){ cudaFreeAsync(q,s); printf(" %d",(int)cudaGraphLaunch(e,s)); }
 if(!strcmp(m,"upload")){ printf(" %d",cudaGraphUpload(e,s)); }
 printf(" sync %d end\n",cudaStreamSynchronize(s)); cudaGraphExecDestroy(e); cudaGraphDestroy(g); return 0; }
