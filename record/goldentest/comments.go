package goldentest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// Comments returns the comments of the types in a folder of Go files, by "type", and of their fields, by "type.field",
// each in one line. The comment "=" repeats that of the field before. A reference is made of them, so that what a field
// means is said where it stands.
func Comments(dir string) map[string]string {
	all := make(map[string]string)
	files, _ := filepath.Glob(filepath.Join(dir, "*.go")) // the pattern is right
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			panic(err) // the tests of the folder could not be built
		}
		for _, d := range file.Decls {
			general, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					all[t.Name.Name] = line(general.Doc)
					fields(all, t)
				}
			}
		}
	}
	return all
}

func fields(all map[string]string, of *ast.TypeSpec) {
	s, ok := of.Type.(*ast.StructType)
	if !ok {
		return
	}
	last := ""
	for _, f := range s.Fields.List {
		text := line(f.Doc) + line(f.Comment)
		if text == "=" {
			text = last
		}
		last = text
		if id, embedded := f.Type.(*ast.Ident); embedded && len(f.Names) == 0 {
			all[of.Name.Name+"."+id.Name] = text
		}
		for _, name := range f.Names {
			all[of.Name.Name+"."+name.Name] = text
		}
	}
}

func line(of *ast.CommentGroup) string {
	return strings.ReplaceAll(strings.TrimSpace(of.Text()), "\n", " ")
}
