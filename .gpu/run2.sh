export PATH=/usr/local/cuda/bin:$PATH; D=$PWD/.gpu; cd /tmp; gcc -shared -fPIC -o libk.so $D/kinds.c -ldl; nvcc -o gl $D/glaunch.cu -lcuda
export K_LIB=$(ls /opt/torch/.venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcupti.so.13 2>/dev/null || find / -name 'libcupti.so.1*' 2>/dev/null|head -1)
for m in plain mem mem-freed mem-kernel null drv-null badstream nested mem-free-outside upload; do echo "== $m"; ./gl $m; for k in 51 10 51,10 10,1,2 2; do echo -n "  [$k] "; CUDA_INJECTION64_PATH=/tmp/libk.so K=$k timeout 30 ./gl $m; r=$?; [ $r = 0 ] || echo " RC $r"; done; done 2>&1
