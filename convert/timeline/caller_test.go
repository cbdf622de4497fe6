package timeline

import "testing"

func TestCallerText(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Caller{
		"libtorch_cuda.so: at::native::add(...)+0x45": {Module: "/usr/lib/libtorch_cuda.so", Address: 0x1045, Symbol: "_ZN2at6native3addEPKfi", SymbolOffset: 0x45},
		"app: step()+0x12":                            {Module: "app", Symbol: "_Z4stepv", SymbolOffset: 0x12},
		"app: main+0x0":                               {Module: "/bin/app", Symbol: "main"},
		"libcublasLt.so.13+0x12345":                   {Module: "/usr/lib/libcublasLt.so.13", Address: 0x12345, SymbolOffset: 7},
		"x.so: Foo::bar()+0x1":                        {Module: "/x.so", Symbol: "_ZNK3Foo3barEv", SymbolOffset: 1},
		"x.so: f<3>()+0x1":                            {Module: "/x.so", Symbol: "_Z1fILi3EEvv", SymbolOffset: 1},
		"x.so: axpy<float>(...)+0x10":                 {Module: "/x.so", Symbol: "_Z4axpyIfEvT_PKS0_PS0_i", SymbolOffset: 16},
		"x.so: main::'lambda'()::operator()()+0x2":    {Module: "/x.so", Symbol: "_ZZ4mainENKUlvE_clEv", SymbolOffset: 2},
		"x.so: foo::bar+0x3":                          {Module: "/x.so", Symbol: "_RNvC3foo3bar", SymbolOffset: 3},
		"x.so: _Zbroken+0x3":                          {Module: "/x.so", Symbol: "_Zbroken", SymbolOffset: 3},
		"a file.so (1): f+0x10":                       {Module: "/dir/a file.so (1)", Symbol: "f", SymbolOffset: 16},
	} {
		if got := c.Text(); got != want {
			t.Errorf("%+v is %q, want %q", c, got, want)
		}
	}
}
