# Of the shape of the files that PyTorch's Inductor generates, for compiled.py: a kernel of two operators, one of PyTorch's own
# kernels, a kernel of the program's, and one with the comment of older versions.


# kernel path: /tmp/torchinductor_ann/ab/cabcde.py
# Topologically Sorted Source Nodes: [x, y], Original ATen: [aten.add, aten.mul]
# Source node to ATen node mapping:
#   x => add
#   y => mul
triton_poi_fused_add_mul_0 = async_compile.triton('triton_poi_fused_add_mul_0', '''
def triton_poi_fused_add_mul_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    pass
''', device_str='cuda')

scale_kernel_0 = async_compile.triton('scale_kernel', '''
def scale_kernel(x, n):
    pass
''', device_str='cuda')

# Source Nodes: [z], Original ATen: [aten._softmax, prims.convert_element_type]
triton_per_fused__softmax_1 = async_compile.triton('triton_per_fused__softmax_1', '''
def triton_per_fused__softmax_1(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr):
    pass
''', device_str='cuda')


class Runner:
    def call(self, args):
        arg0_1, = args
        args.clear()
        # Topologically Sorted Source Nodes: [x, y], Original ATen: [aten.add, aten.mul]
        stream0 = get_raw_stream(0)
        triton_poi_fused_add_mul_0.run(arg0_1, 64, stream=stream0)
        # Topologically Sorted Source Nodes: [w], Original ATen: [aten.mm]
        extern_kernels.mm(arg0_1)
        # Topologically Sorted Source Nodes: [], Original ATen: []
        scale_kernel_0.run(arg0_1, 64, stream=stream0)
        # Source Nodes: [z], Original ATen: [aten._softmax, prims.convert_element_type]
        triton_per_fused__softmax_1.run(arg0_1, 64, 64, stream=stream0)
        return (arg0_1, )


runner = Runner()
call = runner.call
