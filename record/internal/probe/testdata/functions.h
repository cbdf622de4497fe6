long add(long a, int b);
void *same(void *p);
long outer(long n);
int left(int n);
long deep(long n);
long again(long n);
