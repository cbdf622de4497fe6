package callers

import (
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A witness knows a process's code from the linker's own tables: it shares no code with what it tests.
type witness struct {
	files   []witnessFile
	aliases map[string]string // names of the runtime's functions in the program's source
}

type witnessFile struct {
	from, to, bias uint64
	path           string
	functions      []elf.Symbol
	code           []byte // of the executable segment
	start          uint64 // address of code in the file
}

func newWitness(t *testing.T, pid int, whole map[string]string) *witness {
	t.Helper()
	code := must.Get(procfs.CodeFiles(pid))(t)
	w := &witness{}
	for _, m := range code {
		path := m.Path
		if unstripped := whole[path]; unstripped != "" {
			path = unstripped
		}
		if f, ok := readWitness(t, m, path); ok {
			w.files = append(w.files, f)
		}
	}
	return w
}

func readWitness(t *testing.T, m procfs.Mapping, path string) (witnessFile, bool) {
	t.Helper()
	f := must.Get(elf.Open(path))(t)
	defer f.Close()
	from, to := m.Bounds()
	known := witnessFile{from: from, to: to, path: m.Path}
	symbols, _ := f.Symbols()
	more, _ := f.DynamicSymbols()
	for _, s := range append(symbols, more...) {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			known.functions = append(known.functions, s)
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			known.start, known.bias = p.Vaddr, from-m.Offset+p.Off-p.Vaddr
			known.code = make([]byte, p.Filesz)
			must.Get(p.ReadAt(known.code, 0))(t)
		}
	}
	return known, true
}

func (w *witness) file(address uint64) *witnessFile {
	for i := range w.files {
		if f := &w.files[i]; address >= f.from && address < f.to {
			return f
		}
	}
	return nil
}

// around lists the functions around an address of the file.
func (f *witnessFile) around(address uint64) (found []elf.Symbol) {
	for _, s := range f.functions {
		if address > s.Value && address <= s.Value+s.Size {
			found = append(found, s)
		}
	}
	return found
}

// names reports whether an address of the process is in a function of that name.
func (w *witness) names(address uint64, name string) bool {
	f := w.file(address)
	return f != nil && slices.ContainsFunc(f.around(address-f.bias), func(s elf.Symbol) bool {
		return s.Name == name || s.Name == w.aliases[name]
	})
}

// calls reports whether the code in front of upper calls, directly, the function around lower.
func (w *witness) calls(upper, lower uint64) bool {
	f := w.file(upper)
	if f == nil || f != w.file(lower) {
		return false
	}
	at := upper - f.bias - f.start
	if at < 5 || f.code[at-5] != 0xe8 {
		return false
	}
	target := upper - f.bias + uint64(int64(int32(binary.LittleEndian.Uint32(f.code[at-4:]))))
	return slices.ContainsFunc(f.around(lower-f.bias), func(s elf.Symbol) bool { return s.Value == target })
}

// isCall reports whether any call instruction may be in front of an address.
func (w *witness) isCall(address uint64) bool {
	f := w.file(address)
	if f == nil {
		return false
	}
	at := address - f.bias - f.start
	before := f.code[at-min(at, 9) : at]
	return len(before) >= 5 && before[len(before)-5] == 0xe8 || slices.Contains(before, 0xff)
}

// check holds a record against the chain from which it came.
func (w *witness) check(t *testing.T, chain []uint64, c tracelog.Caller) {
	t.Helper()
	for len(chain) > 0 && w.file(chain[0]) != nil && filepath.Base(w.file(chain[0]).path) == "libcuda.so.1" {
		chain = chain[1:]
	}
	top := 0 // the first address of the chain that is not the runtime's
	if c.Function != "" {
		top = slices.IndexFunc(chain, func(a uint64) bool { return w.names(a, c.Function) }) + 1
		if top == 0 {
			t.Fatalf("%x does not pass %s", chain, c.Function)
		}
		for i := 1; i < top; i++ {
			if !w.calls(chain[i], chain[i-1]) {
				t.Fatalf("%x is %s, but %x does not call the function of %x", chain, c.Function, chain[i], chain[i-1])
			}
		}
	}
	if c.Module == "" {
		return
	}
	if top >= len(chain) {
		t.Fatalf("%x has the caller %+v", chain, c)
	}
	f := w.file(chain[top])
	if f == nil || f.path != c.Module || chain[top]-f.bias != c.Address || !w.isCall(chain[top]) {
		t.Fatalf("%x has the caller %+v", chain, c)
	}
	if c.Symbol != "" && !w.names(chain[top], c.Symbol) {
		t.Fatalf("%x is not in %s", chain[top], c.Symbol)
	}
}

// pool is addresses to make chains of: return addresses that were seen, those of any call in the files,
// and others.
func (w *witness) pool(r *running, random *rand.Rand) (all []uint64) {
	for _, c := range r.calls {
		all = append(all, c.chain...)
	}
	seen := len(all)
	for _, f := range w.files {
		if filepath.Dir(f.path) == "/" || len(f.code) > 1<<20 {
			continue
		}
		for at := uint64(9); at < uint64(len(f.code)); at++ {
			if address := f.start + at + f.bias; w.isCall(address) && len(all) < seen+20000 {
				all = append(all, address)
			}
		}
	}
	for range 100 {
		f := w.files[random.IntN(len(w.files))]
		all = append(all, f.from+random.Uint64N(f.to-f.from), random.Uint64())
	}
	for range len(all) / seen { // as often as the others
		all = append(all, all[:seen]...)
	}
	return all
}

// Chains that broken frame pointers produce never have a name that the code does not prove.
func TestGarbage(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the witness reads the code of x86-64 alone")
	}
	chains := 20_000
	if os.Getenv("CUDATRACE_LONG") != "" {
		chains = 1_000_000
	}
	b := newBench(t)
	static, coded := b.static(), b.coded()
	whole := map[string]string{coded + "-stripped": coded}
	for _, path := range []string{b.shared(), static, b.stripped(coded)} {
		l, r := newLog(t), start(t, path)
		w := newWitness(t, r.pid, whole)
		if whole[path] != "" {
			w.aliases = map[string]string{"cudaLaunchKernel": "f211", "cudaMemcpy": "f31", "cudaMemcpyAsync": "f41", "cudaMemsetAsync": "f51", "cudaMalloc": "f20"}
		}
		random := rand.New(rand.NewPCG(1, 2))
		pool := w.pool(r, random)
		named, called := 0, 0
		for range chains {
			chain := w.garbage(r, pool, random)
			id, depth := l.Resolve(r.pid, l.epoch, "cuLaunchKernel", chain)
			c := l.callers[id]
			if depth > len(chain)+1 || c.Function != "" && !cudaapi.IsRuntimeName(c.Function) && c.Function[0] != '_' {
				t.Fatalf("%x: depth %d, %+v", chain, depth, c)
			}
			if w.aliases[c.Function] != "f41" { // where a call is a jump
				w.check(t, chain, c)
			}
			if c.Function != "" {
				named++
			}
			if c.Module != "" {
				called++
			}
		}
		t.Logf("%s: of %d chains of %d addresses %d have names, %d callers", filepath.Base(path), chains, len(pool), named, called)
		if named == 0 || called == 0 {
			t.Error("no chain was good: the test shows nothing")
		}
	}
}

// garbage makes a chain: of addresses in any order, or a true one with a part replaced.
func (w *witness) garbage(r *running, pool []uint64, random *rand.Rand) []uint64 {
	var chain []uint64
	for range 1 + random.IntN(7) {
		chain = append(chain, pool[random.IntN(len(pool))])
	}
	if random.IntN(2) == 0 {
		genuine := r.calls[random.IntN(len(r.calls))].chain
		n := random.IntN(len(genuine))
		chain = append(slices.Clone(genuine[:n]), chain...)
		chain = chain[:min(len(chain), 7)]
	}
	return chain
}

// An address of a process that does not exist, or of no process at all, has no caller.
func TestNoProcess(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	l.look(1 << 30)
	for _, chain := range [][]uint64{nil, {}, {0}, {1}, {1<<64 - 1}, {0x400000, 0x400010}} {
		for _, pid := range []int{1 << 30, os.Getpid()} {
			if id, depth := l.Resolve(pid, 1, "cuLaunchKernel", chain); id != 0 || depth != min(len(chain), 1) {
				t.Errorf("%x of %d: ID %d, depth %d", chain, pid, id, depth)
			}
		}
	}
}
