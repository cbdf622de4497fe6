package kernelnames

import (
	"regexp"
	"strings"
)

// dtypes are types of data.
var dtypes = meanings(`
float: float
double: double
half: Half, __half, half_t
half2: __half2
bf16: BFloat16, __nv_bfloat16, bfloat16_t
bf16x2: __nv_bfloat162
tf32: tfloat32_t
fp8: Float8_e4m3fn, float_e4m3_t
bf8: Float8_e5m2, float_e5m2_t
complex<float>: cuComplex
complex<double>: cuDoubleComplex
bool: bool
char: char
int8: signed char
uint8: unsigned char
short: short
uint16: unsigned short
int: int
uint: unsigned int
long: long, long long
ulong: unsigned long, unsigned long long
`)

// codes are what libraries write for types of data and for directions.
var codes = meanings(`
f64: d, f64f64, d884, ddd
f32: s, f32f32, f32, sss
tf32: tf32, tf32f32, tf32tf32, s1688
f16: h, f16f16, f16, fp16, s16816, s161616, s884, h16816, h1688, h884, hsh, hhh, hss, s64x64x16, s64x128x16, s64x256x16
bf16: bf16bf16, bf16, tst, tss
fp8: e4m3e4m3, qqtst, qqhsh
int8: i, i8i8, i16832, i8816
c64: c
c128: z
stats: collect_statistics
apply: transform_input
fwd: Forward, forward, fprop, F, Fwd
bwd: Backward, backward, bprop, B, Bwd
`)

// operations are other words for operations.
var operations = meanings(`
add: plus
sub: minus
mul: multiplies
div: divides
copy: direct_copy
softmax: soft_max
log_softmax: log_soft_max
pow: pow_tensor_tensor
pow scalar: pow_tensor_scalar
`)

// meanings reads lines of a word and the others that mean the same.
func meanings(text string) map[string]string {
	of := make(map[string]string)
	for line := range strings.Lines(strings.TrimSpace(text)) {
		word, others, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for _, other := range strings.Split(others, ", ") {
			of[other] = word
		}
	}
	return of
}

// withScalar are functors that bind one operand.
var withScalar = []string{"AUnaryFunctor", "BUnaryFunctor"}

// kernelEnds are what kernels have at the end of their names.
var kernelEnds = []string{"_kernel", "CUDAKernel", "Kernel", "_kernel_cuda", "_cuda_kernel", "_cuda"}

// notOperations matches template arguments that say how data is reached, not what is done with it.
var notOperations = regexp.MustCompile(`^(?:std::array|at::detail::Array|(?:at::native::)?\w*OffsetCalculator` +
	`|at::native::(?:memory::\w+|\w*TensorListMetadata|TensorListScalarListMetadata|OpaqueType)` +
	`|at::cuda::detail::\w+|at::\w*Generator\w*|at::Tensor\w*|[^a-zA-Z_'].*|void|char|cute::\w+)$`)

var (
	operationStarts = regexp.MustCompile(`^(?:CUDAFunctor_|CUDAFunctorOnSelf_|CUDAFunctorOnOther_|launch_|_?cuda_)`)
	operationEnds   = regexp.MustCompile(`(?:_?(?:kernel|cuda|impl|functor|template|nocast|gpu|ops?|out|internal|math)` +
		`|Kernel|CUDA|Cuda|Impl|Functor|Math|Ops|Op|Gpu|GPU)$`)
	capital = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)
)

// forTokens leaves out namespaces, and writes types of data as dtypes does.
var forTokens = strings.NewReplacer(
	"at::native::", "", "(anonymous namespace)::", "", "at_cuda_detail::", "", "cub::", "", "thrust::", "",
	"detail::", "", "std::", "", "c10::", "", "cutlass::", "", "at::", "",
	"BFloat16", "bf16", "__nv_bfloat16", "bf16", "bfloat16_t", "bf16", "Half", "half", "__half", "half", "half_t", "half",
	"unsigned ", "u", "signed char", "int8", "long long", "long",
	"CUDAFunctorOnSelf_", "self ", "CUDAFunctorOnOther_", "other ", "AUnaryFunctor", "left", "BUnaryFunctor", "right")
