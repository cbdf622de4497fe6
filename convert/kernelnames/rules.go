package kernelnames

// A rule names the kernels of a pattern. The first rule whose pattern matches is the one.
type rule struct {
	// pattern is a regular expression for the whole name without arguments, parameters and anonymous namespaces.
	pattern string
	// short is the name for people. Apart from text it has
	//
	//	$1           what the pattern's first group matched: {code $1} by the table of codes, {words $1} with spaces
	//	             for _, {snake $1} in lower case
	//	{op} {type}  the operation that the template arguments name, and the type of its data
	//	{name}       the last identifier of the name; {name 1} what that of a template argument says
	//	{has X y}    y if X is in the name; {if 4 y} if a template argument is true
	//	{0} {0.1}    the first template argument, and the second one of that
	//	{inner 0}    the name for people of a template argument
	//	{args}       all template arguments
	short string
	// apart tells kernels apart that have one short name. Of each text the values are tried that differ.
	apart []string
}

// rules are sorted by library. Their order matters within one.
var rules = []rule{
	// PyTorch
	{`at::native::vectorized_elementwise_kernel`, "elementwise {op}<{type}>", []string{"vec{0}"}},
	{`at::native::(?:legacy_)?elementwise_kernel(?:_manual_unroll)?`,
		"elementwise {op}<{type}>", []string{"strided", "{1}", "{has gpu_kernel_impl< cast}"}},
	{`at::native::_scatter_gather_elementwise_kernel`,
		"{has scatter_fill scatter_fill}{has internal_kernel<true scatter}{has internal_kernel<false gather}<{type}>",
		[]string{"{has TensorAssign assign}"}},
	{`at::native::(unrolled|vectorized_templated|index)_elementwise_kernel\w*`,
		"elementwise {op}<{type}>", []string{"$1", "{has LoadWithCast cast}"}},
	{`at::native::distribution_elementwise_grid_stride_kernel`, "random {op}<{type}>", []string{"vec{1}"}},
	{`(?:at::native::)?elementwise_kernel_with_index`, "elementwise {op}<{type}>", []string{"index"}},
	{`at::native::reduce_kernel`, "reduce<{op}, {type}>", []string{"{0}x{1}"}},
	{`at::native::multi_tensor_apply_kernel`,
		"foreach {op}<{1.0}>", []string{"{name 1}", "{has ScalarList list}"}},
	{`at::native::CatArrayBatchedCopy(\w*)`, "cat<{type}>", []string{"{words $1}", "{2}d"}},
	{`(?:at::native::)?(?:cunn_)?(Spatial|)SoftMax(Forward|Backward)(\w*)`,
		"{has LogSoftMax log_}softmax {code $2}<{type}>", []string{"{snake $1}", "$3"}},
	{`(?:at::native::)?softmax_warp_(forward|backward)`,
		"{if 4 log_}softmax {code $1}<{type}>", []string{"warp", "{3}"}},
	{`at::native::(?:vectorized_)?layer_norm_grad_input_kernel(\w*)`, "layer_norm bwd<{type}>", []string{"$1"}},
	{`at::native::(vectorized_|)layer_norm_kernel`, "layer_norm<{type}>", []string{"$1"}},
	{`at::native::(LayerNorm|GroupNorm|RMSNorm)(Forward|Backward)(\w*?)(?:CUDA)?Kernel(\w*)`,
		"$1 {code $2}<{type}>", []string{"$3", "$4"}},
	{`at::native::batch_norm_(collect_statistics|transform_input|backward_reduce|backward_elemt)` +
		`(_channels_last|)_kernel`,
		"batch_norm {code $1}<{type}>", []string{"{words $2}"}},
	{`at::native::tensor_kernel_scan_(innermost|outer)_dim(\w*)`,
		"scan {op}<{type}>", []string{"$1", "{words $2}"}},
	{`at::native::(?:sbtopk|mbtopk)::(\w+)`, "topk $1<{type}>", nil},
	{`at::native::(bitonicSort|radixSort)KVInPlace`, "sort $1<{type}>", nil},
	{`(\w+?)(?:_kernel)?_vectorized(\d+)_kernel`, "elementwise $1", []string{"vec$2"}},

	// attention
	{`(?:pytorch_)?flash::flash_(fwd|bwd)_(splitkv|)_?kernel|(?:pytorch_)?flash::flash_(bwd)_dq_dk_dv\w*_kernel`,
		"flash_attention $1$3 {type} d{0.0}", []string{"$2", "{0.1}x{0.2}"}},
	{`(?:pytorch_)?flash::flash_bwd_dot_do_o_kernel`, "flash_attention dot_do_o {type} d{1.0}", nil},
	{`(?:pytorch_)?flash::flash_(?:fwd_|bwd_)(\w+)_kernel`, "flash_attention $1 {type} d{0.0}", nil},
	{`flash::enable_sm\d+\w*`, "{inner 0}", nil},
	{`flash::FlashAttn(Fwd|Bwd)\w*`, "flash_attention {code $1} {type}", nil},
	{`fmha_cutlass([FB])_([a-z0-9]+)_(?:not)?aligned_(\d+x\d+)\w*`, "attention {code $1} $2 $3 (cutlass)", nil},
	{`cudnn_generated_\w*sdpa_sm\d+_flash_([fb]prop)_\w*?mma_([a-z0-9]+)_knob_\d+_(\d+x\d+x\d+)_\w*`,
		"attention {code $1} $2 $3 (cudnn)", nil},

	// cuBLAS, cuBLASLt, cuDNN
	{`sm\d+_xmma_gemm_([a-z0-9]+)_([a-z0-9]+)_[a-z0-9]+_([nt][nt])_n_tilesize(\d+x\d+)x(\d+)` +
		`\w*?kernel_*(?:5x|51)?_?(\w*)`,
		"gemm {code $1 $2} $4 ($6)", []string{"$3", "k$5", "{has split_k split-k}"}},
	{`sm\d+_xmma_(fprop|dgrad|wgrad)_\w*?gemm_(?:indexed_)?([a-z0-9]+)_([a-z0-9]+)_[a-z0-9]+` +
		`_\w+?_tilesize(\d+x\d+x\d+)\w*?kernel_*(?:5x|51)?_?(\w*)`,
		"conv $1 {code $2 $3} $4 ($5)", []string{"{has split_k split-k}"}},
	{`nvjet_(?:sm\d+_)?([a-z]+)_(\d+x\d+)_(\d+x\d+)_(\d+x\d+)_\w+_([NT]+)`,
		"gemm {code $1} $2 (nvjet)", []string{"$5", "{has _bias_ bias}{has _splitK_ split-k}", "$3", "$4"}},
	{`(?:maxwell|volta|turing|ampere|hopper)_([a-z])gemm_(?:[a-z0-9]+_)?(\d+x\d+)\w*_([nt][nt])\w*`,
		"gemm {code $1} $2 (cublas)", []string{"$3"}},
	{`(?:maxwell|volta|turing|ampere|hopper)_(?:([a-z0-9]+)_)?([a-z]\d+)gemm_` +
		`(?:([a-z0-9]+)_)?(\d+x\d+)\w*_([nt][nt])\w*`,
		"gemm {code $2 $3 $1} $4 (cublas)", []string{"$5", "{has _relu_ relu}"}},
	{`gemm(SN|k1)_(\w*?)_?kernel`, "gemm small {type} (cublas)", []string{"$2", "{5}"}},
	{`gemv(2T|2N|NSP)_kernel\w*|internal::gemvx::kernel`, "gemv {2} (cublas)", []string{"$1"}},
	{`sgemm_largek_lds64`, "gemm f32 large k (cublas)", nil},
	{`cublasLt::epilogue::impl::globalKernel`, "gemm epilogue {type} (cublas)", nil},
	{`cublasLt::splitKreduce_kernel`, "gemm split-k reduce {3} (cublas)", nil},
	{`cudnn::(?:\w+::)*(\w+)`, "{name}<{type}> (cudnn)", nil},
	{`cudnn_(?:infer_)?(\w+)`, "$1 (cudnn)", nil},
	{`cusolver::(?:\w+::)*(\w+)`, "{name}<{type}> (cusolver)", nil},

	// CUTLASS
	{`cutlass::(?:Kernel2?|device_kernel)`, "{inner 0}", nil},
	{`cutlass_\d+_simt_([a-z])gemm_(\d+x\d+)_(\d+x\d+)_([nt][nt])_align(\d+)`,
		"gemm {code $1} $2 (cutlass)", []string{"$4", "$3", "align$5"}},
	{`cutlass_\d+_(?:wmma_)?tensorop_(?:([a-z]+\d+)_)?([a-z]\d+)([a-z0-9]*?)gemm_` +
		`(?:(?:relu_)?([a-z]\w*?)_)?(\d+x\d+)_(?:(\d+x\d+)_)?([nt][nt])_align(\d+)`,
		"gemm {code $2 $1 $3 $4} $5 (cutlass)", []string{"$7", "$6", "align$8", "{has _relu_ relu}"}},
	{`cutlass_\d+_(?:wmma_)?tensorop_(?:([a-z]+\d+)_)?([a-z]\d+)(fprop|dgrad|wgrad)_\w*?(\d+x\d+)_\w+`,
		"conv $3 {code $2 $1} $4 (cutlass)", nil},
	{`cutlass3x_sm\d+_(?:tensorop|simt)_\w*?gemm_([a-z0-9]+)_\w*?_(\d+x\d+x\d+)_\w+`,
		"gemm {code $1} $2 (cutlass)", nil},
	{`cutlass::gemm::kernel::GemmUniversal`, "gemm {1.2} {1.1} (cutlass)", nil},
	{`cutlass::(gemm|conv)::kernel::\w+`, "$1 {type} (cutlass)", nil},

	// NCCL
	{`nccl(?:Symk)?(?:Dev)?Kernel_(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll` +
		`|Generic)\w*`,
		"nccl$1", nil},

	// compilers: names of XLA's fusions are short as they are
	{`triton_[a-z]+_fused_(\w*[a-z]\w*)`, "triton $1", nil},
	{`stream_executor::gpu::(\w+)`, "$1 (xla)", nil},

	// thrust, cub
	{`(?:\w+::)*cub::(?:\w+::)*Device(\w+?)(?:Kernel)?`, "cub {snake $1}<{type}>", nil},
	{`thrust::(?:\w+::)*_kernel_agent`, "thrust {inner 0}", nil},
	{`thrust::(?:\w+::)*(\w+?)Agent`, "{snake $1}<{type}>", nil},

	{`(?:apex::)?multi_tensor_apply_kernel`, "foreach {name 1}<{1.0}>", nil},
	{`at::(?:\w+::)*(\w+)`, "{name}<{type}>", nil},
}
