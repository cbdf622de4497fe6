package elfsym

import (
	"bytes"
	"debug/elf"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

const framesSource = `
int put(int);
__attribute__((noinline)) static int hidden(int n) { return put(n) + n; }
__attribute__((noinline)) int shown(int n) { return hidden(n) + n; }
__attribute__((noinline, aligned(64))) int aliased(int n) { return put(n) - n; }
int alias(int) __attribute__((alias("aliased")));
int memory(int n) { char b[n]; return put(b[0]) + n; }
`

// compileFrames builds a library with flags.
func compileFrames(t testing.TB, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, library := filepath.Join(dir, "frames.c"), filepath.Join(dir, "libframes.so")
	must.Do(t, os.WriteFile(source, []byte(framesSource), 0o644))
	args := append(flags, "-O2", "-shared", "-fPIC", "-Wl,-soname,libframes.so.7", "-Wl,--build-id=0x0123abcd", "-o", library, source)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", args, err, out)
	}
	return library
}

func openImage(t testing.TB, path string) *Image {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	t.Cleanup(func() { f.Close() })
	im := must.Get(Open(f))(t)
	return im
}

// functionsOf reads the functions that a file defines with the standard library.
func functionsOf(t testing.TB, path string) []elf.Symbol {
	t.Helper()
	f := must.Get(elf.Open(path))(t)
	defer f.Close()
	all := must.Get(f.Symbols())(t)
	return slices.DeleteFunc(all, func(s elf.Symbol) bool {
		return elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF || s.Size == 0
	})
}

// Symbols are found at each address within their size, and at no other one.
func TestSymbols(t *testing.T) {
	path := compileFrames(t)
	im := openImage(t, path)
	symbols := must.Get(im.Symbols(1000))(t)
	for _, s := range functionsOf(t, path) {
		for _, at := range []uint64{s.Value, s.Value + s.Size/2, s.Value + s.Size - 1} {
			found := symbols.At(at)
			i := slices.IndexFunc(found, func(f Symbol) bool { return f.Name == s.Name })
			if i < 0 || found[i].Span != (Span{s.Value, s.Value + s.Size}) {
				t.Errorf("%s at %#x: %+v", s.Name, at, found)
			}
		}
		for _, f := range symbols.At(s.Value + s.Size) {
			if f.Name == s.Name {
				t.Errorf("%s goes on behind its end", s.Name)
			}
		}
	}
	var names []string
	for _, s := range symbols.At(im.exported(t, "aliased")) {
		if s.Exported {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	goldentest.Same(t, []string{"alias", "aliased"}, names, "names of one function")
	if _, err := im.Symbols(3); err == nil {
		t.Error("more symbols than there is room for")
	}
}

func (im *Image) exported(t testing.TB, name string) uint64 {
	t.Helper()
	found := must.Get(Exported(im.r, name))(t)
	address, ok := im.Address(found[name])
	if !ok {
		t.Fatalf("no %s", name)
	}
	return address
}

// The unwind tables know each function from its beginning to its end, and whether the frame
// pointer leads out of it.
func TestFrame(t *testing.T) {
	for _, c := range []struct {
		flag   string
		linked bool
	}{{"-fno-omit-frame-pointer", true}, {"-fomit-frame-pointer", false}} {
		path := compileFrames(t, c.flag)
		im := openImage(t, path)
		for _, s := range functionsOf(t, path) {
			if !strings.Contains("hidden shown aliased memory", s.Name) {
				continue
			}
			for _, at := range []uint64{s.Value, s.Value + s.Size/2, s.Value + s.Size - 1} {
				if f, ok := im.Frame(at); !ok || f.Span != (Span{s.Value, s.Value + s.Size}) {
					t.Errorf("%s, %s at %#x: %+v", c.flag, s.Name, at, f)
				}
			}
			first, _ := im.Frame(s.Value)
			middle, _ := im.Frame(im.firstCall(s))
			if first.Linked || middle.Linked != (c.linked || s.Name == "memory") {
				t.Errorf("%s, %s: linked at its beginning %v, at its call %v", c.flag, s.Name, first.Linked, middle.Linked)
			}
		}
		if f, ok := im.Frame(1); ok {
			t.Errorf("a function in the headers: %+v", f)
		}
	}
}

// firstCall is the address of a call in a function.
func (im *Image) firstCall(s elf.Symbol) uint64 {
	code := im.Bytes(s.Value, int(s.Size))
	if runtime.GOARCH == "arm64" {
		for i := 0; i+4 <= len(code); i += 4 {
			if code[i+3]>>2 == 0x25 {
				return s.Value + uint64(i)
			}
		}
	}
	return s.Value + uint64(bytes.IndexByte(code, 0xe8))
}

func TestImage(t *testing.T) {
	im := openImage(t, compileFrames(t))
	if im.Soname() != "libframes.so.7" || im.BuildID() != "0123abcd" {
		t.Errorf("soname %q, build ID %q", im.Soname(), im.BuildID())
	}
	for name, want := range map[string]bool{"put": true, "shown": false, "hidden": false, "ut": false, "puts": false} {
		if got, err := im.Imports("nothing", name); err != nil || got != want {
			t.Errorf("imports %s: %v, %v", name, got, err)
		}
	}
	if !im.NamesBegin("hid") || im.NamesBegin("idden") || im.NamesBegin("absent") {
		t.Error("beginnings of names are wrong")
	}
	code := im.exported(t, "shown")
	found := false
	for address, b := range im.Code(8) {
		found = found || code >= address && code < address+uint64(len(b)) &&
			bytes.Equal(b[code-address:][:4], im.Bytes(code, 4))
	}
	if !found || !im.Executable(code) || im.Executable(0) {
		t.Error("the code is not all there")
	}
}

// Pieces overlap by what was asked for, and together are the whole.
func TestPieces(t *testing.T) {
	whole := make([]byte, 2*chunkSize+100)
	for i := range whole {
		whole[i] = byte(rand.IntN(256))
	}
	im := &Image{file: file{r: bytes.NewReader(whole)}}
	for _, overlap := range []int{0, 1, 16, chunkSize + 1} {
		next := 0
		im.pieces(1000, 0, uint64(len(whole)), overlap, func(address uint64, b []byte) bool {
			at := int(address) - 1000
			if at != max(0, next-overlap) || !bytes.Equal(b, whole[at:at+len(b)]) {
				t.Errorf("overlap %d: %d bytes at %d, behind %d", overlap, len(b), at, next)
			}
			next = at + len(b)
			return true
		})
		if next != len(whole) {
			t.Errorf("overlap %d: %d bytes of %d", overlap, next, len(whole))
		}
	}
}

// use asks an image everything. What it answers of a broken file does not matter; it must come soon.
func use(t testing.TB, b []byte, addresses []uint64) {
	im, err := Open(bytes.NewReader(b))
	if err != nil {
		return
	}
	im.BuildID()
	im.Soname()
	im.Imports("dlsym")
	im.NamesBegin("libcudart_static_")
	for range im.Code(16) {
	}
	for range im.Constants(16) {
	}
	symbols, err := im.Symbols(1000)
	for _, address := range addresses {
		im.Address(address)
		if len(im.Bytes(address, 64)) > 64 {
			t.Error("too many bytes")
		}
		if f, ok := im.Frame(address); ok && !f.Contains(address) {
			t.Errorf("%#x is not in %+v", address, f)
		}
		if err != nil {
			continue
		}
		for _, s := range symbols.At(address) {
			if !s.Contains(address) || s.Name == "" || len(s.Name) > maxSymbolName {
				t.Errorf("%#x is not in %+v", address, s)
			}
		}
	}
}

// A file with wrong bytes anywhere does no harm.
func TestHostileImage(t *testing.T) {
	b := must.Get(os.ReadFile(compileFrames(t, "-fno-omit-frame-pointer")))(t)
	random := rand.New(rand.NewPCG(3, 4))
	var addresses []uint64
	for at := uint64(0); at < 0x4000; at += 256 {
		addresses = append(addresses, at)
	}
	addresses = append(addresses, 1<<63, 1<<64-1)
	for range 3000 {
		broken := slices.Clone(b)
		from := random.IntN(len(b))
		if random.IntN(2) == 0 { // the headers matter most
			from = random.IntN(4096)
		}
		for range 1 + random.IntN(16) {
			broken[min(from+random.IntN(64), len(b)-1)] = byte(random.UintN(256))
		}
		use(t, broken[:len(b)-random.IntN(2)*random.IntN(len(b))], addresses)
	}
}

func FuzzImage(f *testing.F) {
	for _, c := range spoiled {
		f.Add(smallELF(c.spoil), uint64(0x1123))
	}
	f.Fuzz(func(t *testing.T, file []byte, address uint64) { use(t, file, []uint64{address}) })
}

// Entries of the unwind tables with any content end, and never link what they do not say.
func FuzzUnwind(f *testing.F) {
	f.Add([]byte{0x0c, 7, 8, 0x90, 1}, []byte{0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6})
	f.Add([]byte{}, []byte{0x0a, 0x0b, 0x0f, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, common, own []byte) {
		e := unwindEntry{span: Span{0x1000, 0x2000}, instructions: own}
		e.common = commonEntry{codeAlign: 1, dataAlign: -8, returnAddress: machineRegisters().returnAddress, instructions: common}
		for _, at := range []uint64{0x1000, 0x1004, 0x1fff} {
			e.linked(at)
		}
		e.common.signal = true
		if e.linked(0x1004) {
			t.Error("the frame of a signal handler is linked")
		}
	})
}
