package elfsym

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/must"
)

func known(name string) bool { return cudaapi.ByName(name) != nil }

// compile builds a library and a program with it and a static runtime, of the sources that
// package probe tests with.
func compile(t *testing.T) (files []string) {
	t.Helper()
	dir := t.TempDir()
	for _, args := range []string{
		"-shared -fPIC -Wl,-soname,libcuda.so.1 -o %s/libcuda.so.1 ../probe/testdata/libcuda.c",
		"-pthread -DWITH_RUNTIME -o %s/static ../probe/testdata/target.c ../probe/testdata/libcudart.c -l:libcuda.so.1 -ldl",
	} {
		words := append([]string{"-L" + dir}, strings.Fields(fmt.Sprintf(args, dir))...)
		if out, err := exec.Command("gcc", words...).CombinedOutput(); err != nil {
			t.Fatalf("gcc %s: %v\n%s", words, err, out)
		}
	}
	return []string{dir + "/libcuda.so.1", dir + "/static"}
}

// Found offsets are where the linker's own tables put the functions.
func TestFind(t *testing.T) {
	for _, path := range compile(t) {
		f := must.Get(elf.Open(path))(t)
		defer f.Close()
		symbols := must.Get(f.Symbols())(t)
		want := map[string]uint64{}
		for _, s := range symbols {
			if known(s.Name) && s.Section != elf.SHN_UNDEF {
				text := f.Sections[s.Section]
				want[s.Name] = s.Value - text.Addr + text.Offset
			}
		}
		file := must.Get(os.Open(path))(t)
		defer file.Close()
		got := must.Get(Find(file, known))(t)
		if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// Exported finds names of any form, of functions that a library exports alone.
func TestExported(t *testing.T) {
	intact := smallELF(spoiled[0].spoil)
	got, err := Exported(bytes.NewReader(intact), "cudaMalloc", "Malloc", "execve")
	if diff := cmp.Diff(map[string]uint64{"cudaMalloc": 0x123}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Beside finds a function and a variable in a library: here before and behind each other.
func TestBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib.so")
	const source = "int variable = 7, zeroed; int function(void) { return variable + zeroed; }"
	gcc := exec.Command("gcc", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
	gcc.Stdin = strings.NewReader(source)
	must.Run(t, gcc)
	f := must.Get(elf.Open(path))(t)
	defer f.Close()
	symbols := must.Get(f.DynamicSymbols())(t)
	at := map[string]uint64{}
	for _, s := range symbols {
		at[s.Name] = s.Value
	}
	file := must.Get(os.Open(path))(t)
	defer file.Close()
	functions := must.Get(Exported(file, "function"))(t)
	for _, c := range []struct {
		function, variable string
		ok                 bool
	}{
		{"function", "variable", true}, {"function", "zeroed", true},
		{"variable", "function", false}, {"function", "missing", false}, {"missing", "variable", false},
	} {
		offset, distance, ok, err := Beside(file, c.function, c.variable)
		if err != nil || ok != c.ok || ok && (offset != functions[c.function] || at[c.function]+distance != at[c.variable]) {
			t.Errorf("%s and %s: %#x and %#x behind, %t, %v", c.function, c.variable, offset, distance, ok, err)
		}
	}
}

// namesIn finds the names that are known in a string table.
func namesIn(table []byte) (map[uint32]string, error) {
	f := &file{r: bytes.NewReader(table)}
	return f.findNames(io.NewSectionReader(f.r, 0, int64(len(table))), known)
}

// Names are found across the borders of what is read at once, and at the end of
// longer names.
func TestFindNames(t *testing.T) {
	for _, shift := range []int{0, 1, chunkSize - 64 - 34, chunkSize - 64 - 33, chunkSize - 64 - 32, chunkSize - 64 - 31, chunkSize - 64 - 30, chunkSize - 12, chunkSize - 5, chunkSize - 1, chunkSize, chunkSize + 1, 2*chunkSize - 3} {
		table := append(bytes.Repeat([]byte{'x'}, shift), "my_cudaMalloc\x00cudaMallocs\x00cuda\x00__cudaLaunchKernel\x00cup\x00"...)
		got, err := namesIn(table)
		at := uint32(shift)
		want := map[uint32]string{at + 3: "cudaMalloc", at + 31: "__cudaLaunchKernel", at + 33: "cudaLaunchKernel"}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("shifted by %d: %v\n%s", shift, err, diff)
		}
	}
	if _, err := namesIn(bytes.Repeat([]byte("cudaFree\x00"), maxHits+1)); err == nil {
		t.Error("a table that repeats a name without end is taken")
	}
}

// smallELF is a library with one function, cudaMalloc at file offset 0x123, and knobs
// to spoil it.
func smallELF(spoil func(h *elf.Header64, p *elf.Prog64, s []elf.Section64)) []byte {
	h := elf.Header64{
		Machine: uint16(host.Machine()), Type: uint16(elf.ET_DYN), Version: 1, Ehsize: 64,
		Phoff: 64, Phentsize: 56, Phnum: 1, Shoff: 120, Shentsize: 64, Shnum: 3,
	}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	p := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_X), Off: 0x100, Vaddr: 0x1100, Filesz: 0x100, Memsz: 0x100}
	s := []elf.Section64{
		{},
		{Type: uint32(elf.SHT_DYNSYM), Off: 312, Size: 24, Link: 2, Entsize: 24},
		{Type: uint32(elf.SHT_STRTAB), Off: 336, Size: 12},
	}
	spoil(&h, &p, s)
	var b bytes.Buffer
	symbol := elf.Sym64{Name: 1, Info: uint8(elf.STT_FUNC), Shndx: 1, Value: 0x1123}
	for _, part := range []any{h, p, s, symbol} {
		binary.Write(&b, binary.LittleEndian, part)
	}
	b.WriteString("\x00cudaMalloc\x00")
	return b.Bytes()
}

var spoiled = []struct {
	name  string
	spoil func(h *elf.Header64, p *elf.Prog64, s []elf.Section64)
	found bool
	fails bool
}{
	{"intact", func(*elf.Header64, *elf.Prog64, []elf.Section64) {}, true, false},
	{"big-endian", func(h *elf.Header64, _ *elf.Prog64, _ []elf.Section64) { h.Ident[5] = 2 }, false, true},
	{"other-machine", func(h *elf.Header64, _ *elf.Prog64, _ []elf.Section64) { h.Machine = 8 }, false, true},
	{"no-sections", func(h *elf.Header64, _ *elf.Prog64, _ []elf.Section64) { h.Shnum = 0 }, false, false},
	{"sections-beyond-end", func(h *elf.Header64, _ *elf.Prog64, _ []elf.Section64) { h.Shoff = 1 << 62 }, false, true},
	{"negative-sections", func(h *elf.Header64, _ *elf.Prog64, _ []elf.Section64) { h.Shoff = 1 << 63 }, false, true},
	{"many-segments", func(h *elf.Header64, _ *elf.Prog64, _ []elf.Section64) { h.Phnum = 0xffff }, false, true},
	{"not-executable", func(_ *elf.Header64, p *elf.Prog64, _ []elf.Section64) { p.Flags = 0 }, false, false},
	{"address-outside", func(_ *elf.Header64, p *elf.Prog64, _ []elf.Section64) { p.Vaddr = 0x2000 }, false, false},
	{"address-wraps", func(_ *elf.Header64, p *elf.Prog64, _ []elf.Section64) { p.Vaddr, p.Filesz = 1<<64-1, 1<<64-1 }, false, false},
	{"link-outside", func(_ *elf.Header64, _ *elf.Prog64, s []elf.Section64) { s[1].Link = 99 }, false, true},
	{"entries-of-1-byte", func(_ *elf.Header64, _ *elf.Prog64, s []elf.Section64) { s[1].Entsize = 1 }, false, true},
	{"huge-table", func(_ *elf.Header64, _ *elf.Prog64, s []elf.Section64) { s[1].Size = 1 << 60 }, false, true},
	{"huge-offset", func(_ *elf.Header64, _ *elf.Prog64, s []elf.Section64) { s[2].Off = 1<<63 - 1 }, false, true},
	{"names-beyond-end", func(_ *elf.Header64, _ *elf.Prog64, s []elf.Section64) { s[2].Off = 1 << 40 }, false, false},
}

func TestSpoiledELF(t *testing.T) {
	for _, c := range spoiled {
		got, err := Find(bytes.NewReader(smallELF(c.spoil)), known)
		if (err != nil) != c.fails || (got["cudaMalloc"] == 0x123) != c.found {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
	for cut := range smallELF(spoiled[0].spoil) {
		Find(bytes.NewReader(smallELF(spoiled[0].spoil)[:cut]), known)
	}
}

func FuzzFind(f *testing.F) {
	for _, c := range spoiled {
		f.Add(smallELF(c.spoil))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		found, err := Find(bytes.NewReader(file), known)
		if err != nil && len(found) > 0 {
			t.Error("both symbols and an error")
		}
		for name := range found {
			if !known(name) {
				t.Errorf("found %q", name)
			}
		}
	})
}
