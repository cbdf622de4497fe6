package probe

import (
	"cmp"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/ianlancetaylor/demangle"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Bounds of the functions of any library that are probed in all processes together.
const (
	maxFunctions = 512
	// maxSingle bounds them where each probe is a perf event (singleLimits).
	maxSingle = 24
)

// Functions are the functions of a file that Options.OfFiles selects.
type Functions struct {
	PID     int
	Path    string // of the file, in the process's own mount namespace
	New     []tracelog.Function
	Once    []string // names of those of which the entry alone is recorded, although their returns were asked for
	Beyond  int      // number of those that were selected, if there was no room for them: none of them is probed
	Most    int      // functions of all files that are probed at the same time
	Refused []string // those that the kernel cannot probe, with its reason
	Err     error    // why none is probed; nil where they are
}

// functions are the functions of any library.
type functions struct {
	of, without []pattern.Functions
	most        int
	report      func(Functions)
	matched     []bool // of those of which there was a function

	mu    sync.Mutex
	files map[procfs.Content]*functionFile
	count int
}

// A functionFile is a file with selected functions.
type functionFile struct {
	list   []anyFunction
	beyond int
	told   bool
}

// An anyFunction is a function that is none of CUDA's.
type anyFunction struct {
	tracelog.Function
	offset  uint64
	words   int
	once    bool     // its entry alone is recorded
	unknown bool     // although its return was asked for
	returns []uint64 // its return instructions
}

func newFunctions(o *Options) *functions {
	f := &functions{
		of: o.OfFiles, without: o.WithoutOfFiles, report: o.OnFunctions, matched: make([]bool, len(o.OfFiles)),
		files: map[procfs.Content]*functionFile{},
	}
	if f.report == nil {
		f.report = func(Functions) {}
	}
	return f
}

// Unmatched lists those of Options.OfFiles that have selected nothing so far.
func (p *Prober) Unmatched() (none []pattern.Functions) {
	f := p.functions
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, of := range f.of {
		if !f.matched[i] {
			none = append(none, of)
		}
	}
	return none
}

// attachFunctionsOf probes the selected functions of a file, if it has any.
func (p *Prober) attachFunctionsOf(pid int, proc *probedProcess, m procfs.Mapping) {
	f := p.functions
	if proc.functions[m.File] != nil || !slices.ContainsFunc(f.of, func(of pattern.Functions) bool {
		return of.In(m.Path)
	}) {
		return
	}
	of := Functions{PID: pid, Path: m.Path, Most: f.most}
	probes, err := p.probeFunctions(pid, m, &of)
	if err != nil {
		of.Err = attachError(m.Path, err)
	}
	if probes != nil {
		proc.functions[m.File] = probes
	}
	if len(of.New)+len(of.Refused)+of.Beyond > 0 || of.Err != nil {
		f.report(of)
	}
}

func (p *Prober) probeFunctions(pid int, m procfs.Mapping, of *Functions) (io.Closer, error) {
	opened, err := m.Open(pid)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	content, err := procfs.ContentOf(opened)
	if err != nil {
		return nil, err
	}
	file, err := p.functions.choose(content, opened, m.Path)
	if err != nil {
		return nil, err
	}
	if !file.told {
		file.told, of.Beyond = true, file.beyond
		for i := range file.list {
			of.New = append(of.New, file.list[i].Function)
			if file.list[i].unknown {
				of.Once = append(of.Once, file.list[i].Name)
			}
		}
	}
	l := &libraryFile{File: opened, id: m.File, path: m.Path}
	return p.attachAny(l, file.list, pid, of)
}

// attachAny probes functions, all at once, or those that the kernel can probe.
func (p *Prober) attachAny(l *libraryFile, list []anyFunction, pid int, of *Functions) (io.Closer, error) {
	var whole, once []anyFunction
	for _, f := range list {
		if f.once {
			once = append(once, f)
		} else {
			whole = append(whole, f)
		}
	}
	var probes closeInOrder
	for _, part := range [][]anyFunction{whole, once} {
		if len(part) == 0 {
			continue
		}
		some, err := attachPossible(len(part), func(from, to int) (io.Closer, error) {
			return p.attachFunctionSites(l, part[from:to], pid)
		}, func(i int, err error) { of.Refused = append(of.Refused, part[i].Name+" ("+err.Error()+")") })
		switch {
		case err == nil:
			probes = append(probes, some)
		case isFatal(err):
			return nil, errors.Join(err, probes.Close())
		}
	}
	if len(probes) == 0 {
		return nil, nil
	}
	return probes, nil
}

// attachFunctionSites probes functions that are alike: their returns are recorded, or none.
func (p *Prober) attachFunctionSites(l *libraryFile, list []anyFunction, pid int) (io.Closer, error) {
	sites := make([]probeSite, len(list))
	for i, f := range list {
		sites[i] = probeSite{offset: f.offset, cookie: uint64(f.ID) | uint64(f.words)<<bpf.CookieWords, returns: f.returns}
		if f.once {
			sites[i].cookie |= bpf.CookieAlone
		}
	}
	file := procfs.OpenFile(l.File)
	if list[0].once {
		return attachHere(p.program.functions, file, sites, pid)
	}
	return attachReturning(p.program.functions, file, sites, pid)
}

// choose returns the functions of a file that are selected. They have numbers for as long as the recording lasts.
func (f *functions) choose(content procfs.Content, r io.ReaderAt, name string) (*functionFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.files[content]; known != nil {
		return known, nil
	}
	im, err := elfsym.Open(elfsym.InBlocks(r))
	if err != nil {
		return nil, err
	}
	file := &functionFile{}
	f.files[content] = file
	found, chosen, err := f.find(im, name)
	if err != nil || len(found) == 0 {
		return file, err
	}
	if f.count+len(found) > f.most {
		file.beyond = len(found)
		return file, nil
	}
	for i, s := range found {
		of := chosen[i]
		a := anyFunction{words: of.Args, once: of.Once}
		a.offset, _ = im.Offset(s.From) // found functions are in the file
		if !a.once {
			a.returns = returnsAt(im, s.From)
			a.once, a.unknown = len(a.returns) == 0, len(a.returns) == 0
		}
		a.Function = tracelog.Function{
			ID: uint32(bpf.MaxFunctions + f.count), Name: s.Name, Library: path.Base(name), Args: argNames(of.Args),
		}
		f.count++
		file.list = append(file.list, a)
	}
	return file, nil
}

// argNames names the arguments of a function: its prototype is not known.
func argNames(n int) string {
	names := []string{"arg0:word", "arg1:word", "arg2:word", "arg3:word", "arg4:word", "arg5:word"}
	return strings.Join(names[:n], " ")
}

// they are equal
var _, _ = [1]int{}[bpf.MaxFunctionWords-tracelog.MaxFunctionArgs], [1]int{}[pattern.MaxArgs-tracelog.MaxFunctionArgs]

// find returns the selected functions of a file in the order of their addresses, one for each address, with what
// selects them. The functions of CUDA are not among them: these are calls.
func (f *functions) find(im *elfsym.Image, file string) (found []elfsym.Symbol, chosen []pattern.Functions, err error) {
	var of []int // indexes of patterns
	for i := range f.of {
		if f.of[i].In(file) {
			of = append(of, i)
		}
	}
	without := slices.DeleteFunc(slices.Clone(f.without), func(w pattern.Functions) bool { return !w.In(file) })
	selects := func(name []byte) int {
		for _, i := range of {
			if names(f.of[i], string(name)) {
				return i
			}
		}
		return -1
	}
	all, err := im.Defined(func(name []byte) bool {
		return selects(name) >= 0 && !isPart(string(name)) && cudaapi.ByName(string(name)) == nil &&
			!slices.ContainsFunc(without, func(w pattern.Functions) bool { return names(w, string(name)) })
	})
	if err != nil {
		return nil, nil, err
	}
	// Of several names of one function the one with the fewest underscores in front counts.
	slices.SortFunc(all, func(a, b elfsym.Symbol) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(underscores(a.Name), underscores(b.Name)),
			cmp.Compare(a.Name, b.Name))
	})
	for _, s := range all {
		if n := len(found); n > 0 && found[n-1].From == s.From {
			continue
		}
		i := selects([]byte(s.Name))
		f.matched[i] = true
		found, chosen = append(found, s), append(chosen, f.of[i])
	}
	return found, chosen, nil
}

// isPart reports whether a symbol is the rarely used part of a function, which a compiler puts elsewhere: it is jumped
// to, not called.
func isPart(symbol string) bool {
	return strings.HasSuffix(symbol, ".cold") || strings.Contains(symbol, ".cold.")
}

func underscores(name string) int { return len(name) - len(strings.TrimLeft(name, "_")) }

// names reports whether a pattern selects a symbol: by its name, or by the demangled one, without parameters, where the
// pattern has ::.
func names(of pattern.Functions, symbol string) bool {
	return pattern.Match(of.Name, symbol) || strings.Contains(of.Name, "::") && isMangled(symbol) &&
		pattern.Match(of.Name, demangle.Filter(symbol, demangle.NoParams))
}

// isMangled reports whether a symbol is one of C++, Rust, D or Swift.
func isMangled(symbol string) bool {
	return slices.ContainsFunc([]string{"_Z", "_R", "_D", "$s"}, func(prefix string) bool {
		return strings.HasPrefix(symbol, prefix)
	})
}
