package probe

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Numbers of functions that are not in cudaapi's table.
const (
	// clientFunction is cuptiActivityRegisterCallbacks. Its first argument is recorded, even while
	// recording is paused.
	clientFunction = bpf.MaxFunctions - 1
	// calibrationFunction is the function that is called to measure the cost of a probed call.
	calibrationFunction = clientFunction - 1
	// rangeBeginsFunction and rangeEndsFunction are the injected library's functions for the NVTX range that
	// recording is limited to: calls are recorded between the two.
	rangeBeginsFunction = calibrationFunction - 1
	rangeEndsFunction   = rangeBeginsFunction - 1
	// signFunction is a launch of the driver's whose calls somebody else records: it tells that a launch has reached the
	// driver, and nothing else.
	signFunction = rangeEndsFunction - 1
)

// needs reports whether a function has to be probed for its effect, whether it is chosen or not.
func (o *Options) needs(f *cudaapi.Function) bool {
	return o.Symbols && f.Naming != cudaapi.NamesNothing || o.CaptureRange && f.Range != cudaapi.NoRange
}

// A recipeTable has every function to probe, and how its arguments are recorded: a cookie for
// each probe, a recipe for the eBPF program where a cookie has too few bits, and the decoding of
// the words that come back.
//
// A plain function needs no recipe: its probe copies whole words, as its cookie says, and
// arguments reads the arguments from them.
type recipeTable struct {
	names map[string]*cudaapi.Function // by symbol
	plain [bpf.MaxFunctions]*plainFunction
	other [bpf.MaxFunctions]uint64 // what the cookies of all functions have, plain or not
	// launches are the runtime's launches that are not chosen, by symbol. They are probed until a launch
	// reaches the driver, and recorded where they fail.
	launches map[string]*cudaapi.Function
	recipes  map[uint32]*bpf.ProbesRecipe // recipes of the functions that are not plain
}

// newRecipeTable compiles the recipes of the functions that o names or needs.
func newRecipeTable(o *Options) (*recipeTable, error) {
	t := &recipeTable{
		names: map[string]*cudaapi.Function{}, launches: map[string]*cudaapi.Function{},
		recipes: map[uint32]*bpf.ProbesRecipe{},
	}
	chosen := map[string]bool{}
	for _, f := range o.Functions {
		if int(f.ID) >= bpf.MaxFunctions || len(f.Args) > bpf.MaxArgs {
			return nil, fmt.Errorf("function %s does not fit into the eBPF program's tables", f.Name)
		}
		t.names[f.Name] = f
		chosen[f.Name] = true
	}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		if o.needs(f) { // in a process with a runtime, too
			own := *f
			own.Fallback = false
			t.names[f.Name] = &own
		}
	}
	for _, f := range t.names {
		wanted := noCall
		if chosen[f.Name] {
			wanted = everyCall
		}
		if err := t.compile(o, f, wanted); err != nil {
			return nil, err
		}
	}
	t.addRecipe(clientFunction, clientRecipe())
	t.addRecipe(rangeBeginsFunction, &bpf.ProbesRecipe{Quiet: 1, Later: 1, Range: bpf.RangeBegin})
	t.addRecipe(rangeEndsFunction, &bpf.ProbesRecipe{Quiet: 1, Range: bpf.RangeEnd})
	t.addRecipe(signFunction, &bpf.ProbesRecipe{Quiet: 1})
	t.other[signFunction] = bpf.CookieLaunch
	return t, t.addLaunches(o)
}

// probes reports whether a function of CUDA may be probed.
func (t *recipeTable) probes(name string) bool {
	return t.names[name] != nil || t.launches[name] != nil
}

// addLaunches adds the runtime's launches, if the driver's are chosen.
func (t *recipeTable) addLaunches(o *Options) error {
	if !slices.ContainsFunc(o.Functions, launchesAtDriver) {
		return nil
	}
	for _, f := range cudaapi.RuntimeLaunches() {
		if t.names[f.Name] != nil {
			continue
		}
		t.launches[f.Name] = f
		if err := t.compile(o, f, failedCall); err != nil {
			return err
		}
	}
	return nil
}

// launchesAtDriver reports whether a function is one of the driver's that launch a kernel.
func launchesAtDriver(f *cudaapi.Function) bool {
	return f.Library == cudaapi.Driver && cudaapi.TraitsOf(f.Name).Launches
}

// wantedCalls are the calls of a function that are recorded.
type wantedCalls uint8

const (
	everyCall wantedCalls = iota
	noCall                // those of a function that finds a kernel are, if they fail
	failedCall
)

// compile adds a function.
func (t *recipeTable) compile(o *Options, f *cudaapi.Function, w wantedCalls) error {
	r, err := o.compile(f)
	if err != nil {
		return err
	}
	if w != everyCall {
		r.Quiet = 1
	}
	if w == failedCall {
		r.Failed = 1
	}
	t.addRecipe(uint32(f.ID), r)
	t.other[f.ID] = chainOf(f) << bpf.CookieChain
	if launchesAtDriver(f) {
		t.other[f.ID] |= bpf.CookieLaunch
	}
	return nil
}

var (
	rangeOf  = map[cudaapi.Range]uint8{cudaapi.RangeStart: bpf.RangeBegin, cudaapi.RangeStop: bpf.RangeEnd}
	symbolOf = map[cudaapi.Naming]uint8{cudaapi.NamesByText: bpf.SymbolNamed, cudaapi.NamesByHandle: bpf.SymbolDerived}
)

// compile makes a recipe: how the arguments are read, and the effect of the function.
func (o *Options) compile(f *cudaapi.Function) (*bpf.ProbesRecipe, error) {
	r, err := compileRecipe(f)
	if err != nil {
		return nil, err
	}
	if o.CaptureRange {
		r.Range = rangeOf[f.Range]
	}
	if o.Symbols {
		r.Symbol = symbolOf[f.Naming]
	}
	if r.Symbol != bpf.SymbolNone || r.Range&bpf.RangeBegin != 0 {
		r.Later = 1
	}
	return r, nil
}

func clientRecipe() *bpf.ProbesRecipe {
	r := &bpf.ProbesRecipe{Nargs: 1, Always: 1}
	r.Ops[0] = bpf.ProbesOp{Mask: math.MaxUint64, Kind: bpf.OpCopy}
	return r
}

func (t *recipeTable) addRecipe(function uint32, r *bpf.ProbesRecipe) {
	if p, ok := compilePlain(function, r); ok {
		t.plain[function] = p
	} else {
		t.recipes[function] = r
	}
}

// cookie is the attach cookie of a function's probe.
func (t *recipeTable) cookie(function uint32) uint64 {
	if p := t.plain[function]; p != nil {
		return p.cookie | t.other[function]
	}
	return uint64(function) | t.other[function]
}

// chainOf is the most return addresses above a call that are of use. A program calls the runtime
// itself, but the driver mostly through the runtime.
func chainOf(f *cudaapi.Function) uint64 {
	if f.Library == cudaapi.Runtime {
		return 1
	}
	return bpf.MaxChain
}

// calibrationCookie is a cookie by which calls of the calibrationFunction are recorded like
// those of cuLaunchKernel, even while recording is paused.
func calibrationCookie() (uint64, error) {
	r, err := compileRecipe(cudaapi.ByName("cuLaunchKernel"))
	if err != nil {
		return 0, err
	}
	r.Always = 1
	p, ok := compilePlain(calibrationFunction, r)
	if !ok {
		return 0, errors.New("a launch is not a plain function")
	}
	return p.cookie | bpf.MaxChain<<bpf.CookieChain | bpf.CookieLaunch, nil
}

// arguments reads the arguments of a plain function's call from the words of its event.
func (t *recipeTable) arguments(c *tracelog.Call, words []byte) error {
	if c.Func < bpf.MaxFunctions {
		if p := t.plain[c.Func]; p != nil && len(words) >= 8*p.words {
			p.arguments(c, words)
			return nil
		}
	}
	return fmt.Errorf("the buffers hold a malformed call of function %d with %d bytes", c.Func, len(words))
}
