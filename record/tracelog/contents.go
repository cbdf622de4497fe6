package tracelog

import (
	"errors"
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
)

// Contents are the blocks that a reader gave, and what is needed to read them again: the schema
// and the texts of the log. Another reader of the log gives exactly these blocks (Reader.Reread).
type Contents struct {
	blocks []givenBlock
	kinds  [4]uint64 // a bit for each kind
	schema *columns.Schema
	texts  *stringTable
}

// A givenBlock is a block that a reader gave.
type givenBlock struct {
	offset int64
	header blockfile.Header
	kind   Kind
}

// Remember makes the reader keep Contents: 32 bytes for each block that Next gives from now on.
func (r *Reader) Remember() {
	if r.contents == nil {
		r.contents = &Contents{}
	}
}

// Contents returns the blocks that Next has given since Remember.
func (r *Reader) Contents() *Contents {
	r.contents.schema, r.contents.texts = r.log.schema, r.log.strings.share()
	return r.contents
}

func (c *Contents) addBlock(b *Block, h blockfile.Header) {
	c.kinds[b.Kind/64] |= 1 << (b.Kind % 64)
	c.blocks = append(c.blocks, givenBlock{b.Offset, h, b.Kind})
}

// Have reports whether there is a block of one of these kinds.
func (c *Contents) Have(kinds ...Kind) bool {
	return slices.ContainsFunc(kinds, func(k Kind) bool { return c.kinds[k/64]>>(k%64)&1 != 0 })
}

// Reread makes Next give those blocks of c, which another reader of this log has given, that can
// have records that the filter wants. A block that is not as it was is an error of the file.
// Reread must come before the first Next.
func (r *Reader) Reread(c *Contents, f Filter) error {
	if r.begun {
		return r.errBegun("read again")
	}
	own := *c.schema // each reader finds places in it by itself
	r.log.schema, r.log.strings = &own, *c.texts
	r.blocks, r.log.filter, r.log.ledger = &rereading{r.src, c.blocks, f.Kinds}, &f, nil
	return nil
}

// A rereading is a source of the blocks of Contents that are of some kinds; no kinds stand for
// all.
type rereading struct {
	src   *blockfile.Source
	left  []givenBlock
	kinds []Kind
}

var errChanged = errors.New("was changed while it was read")

// Next goes to the next block.
func (s *rereading) Next(b *blockfile.Block) {
	b.Reset()
	for len(s.left) > 0 {
		g := s.left[0]
		s.left = s.left[1:]
		if len(s.kinds) == 0 || slices.Contains(s.kinds, g.kind) {
			s.read(b, &g)
			return
		}
	}
	b.End = true
}

func (s *rereading) read(b *blockfile.Block, g *givenBlock) {
	h, ok, err := s.src.HeaderAt(g.offset)
	if err == nil && ok && h == g.header {
		ok, err = s.src.Load(b, h, g.offset)
	} else {
		ok = false
	}
	if b.Err = err; err == nil && !ok {
		b.Err = errChanged
	}
}
