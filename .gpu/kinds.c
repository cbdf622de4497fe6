#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
static void request(uint8_t **b,size_t*s,size_t*m){*b=aligned_alloc(8,1<<20);*s=1<<20;*m=0;}
static void done(void*c,uint32_t st,uint8_t*b,size_t s,size_t v){free(b);}
int InitializeInjection(void){
 void*h=dlopen(getenv("K_LIB"),RTLD_NOW|RTLD_GLOBAL); if(!h){fprintf(stderr,"%s\n",dlerror());return 1;}
 int(*reg)(void*,void*)=dlsym(h,"cuptiActivityRegisterCallbacks"); int(*en)(uint32_t)=dlsym(h,"cuptiActivityEnable");
 reg(request,done); char*k=strdup(getenv("K")); for(char*t=strtok(k,",");t;t=strtok(0,","))  { int r=en(atoi(t)); if(r)fprintf(stderr,"kind %s: %d\n",t,r);} return 1;}
