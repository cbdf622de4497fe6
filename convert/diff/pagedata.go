package diff

import (
	"encoding/xml"
	"io"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// pageVersion is the version of the JSON.
const pageVersion = 2

// WriteJSON writes the page as a JSON object, which docs/diff.md documents.
func (p *Page) WriteJSON(w io.Writer) error {
	names := func(runs []*Run) (list []string) {
		for _, r := range runs {
			if len(r.Files) > 1 {
				list = append(list, r.Files...)
				continue
			}
			list = append(list, r.Name)
		}
		return list
	}
	type problem struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	}
	problems := []problem{}
	for _, x := range p.Problems {
		problems = append(problems, problem(x))
	}
	head := []table.Member{{Name: "version", Value: pageVersion}, {Name: "base", Value: names(p.Diff.Base)},
		{Name: "new", Value: names(p.Diff.New)},
		{Name: "times_judged", Value: !p.tooFew()}, {Name: "differences", Value: p.differences()},
		{Name: "problems", Value: problems}}
	return table.WriteJSON(w, head, p.dataTables())
}

// dataTables are the tables of the JSON: everything that was compared.
func (p *Page) dataTables() []*table.Table {
	all := []*table.Table{p.conditionData(), p.overallData()}
	for _, s := range p.Sections {
		all = append(all, sectionData(s))
	}
	return all
}

// conditionCells is a row of the conditions.
type conditionCells struct {
	Name   string   `key:"name"`
	State  State    `key:"state"`
	Why    string   `key:"why"`
	Row    string   `key:"row"`
	Base   *float64 `key:"base" unit:"rate"`
	New    *float64 `key:"new" unit:"rate"`
	Value  *float64 `key:"value" unit:"rate"`
	Limit  float64  `key:"limit" unit:"rate"`
	Q      *float64 `key:"q" unit:"rate"`
	Rows   int      `key:"rows"`
	Unseen *float64 `key:"unseen" unit:"rate"`
}

func (p *Page) conditionData() *table.Table {
	var rows []conditionCells
	for _, o := range p.Outcomes {
		r := conditionCells{Name: o.Text, State: o.State, Why: o.Why, Limit: o.Value, Rows: o.Holds}
		if len(o.Cases) > 0 {
			x := o.Cases[0]
			r.Row, r.Base, r.New, r.Value, r.Q = x.Name, &x.Base, &x.New, &x.Value, &x.Q
		}
		if o.Unseen != nil {
			r.Unseen = &o.Unseen.Smallest
		}
		rows = append(rows, r)
	}
	t := table.Of(rows)
	t.Name, t.Reason = "conditions", "no conditions"
	return t
}

func (p *Page) overallData() *table.Table {
	t := &table.Table{Name: "overall", Columns: []table.Column{{Key: "name"}, {Key: "verdict"},
		{Key: "base", Unit: table.Rate}, {Key: "new", Unit: table.Rate},
		{Key: "change", Unit: table.Rate}, {Key: "q", Unit: table.Rate}, {Key: "base_spread", Unit: table.Rate},
		{Key: "new_spread", Unit: table.Rate}}}
	for _, o := range p.Overall {
		t.Add(o.Name, orNothing(o.Verdict), o.Base, o.New, o.change(), o.Q, o.Spread[0], o.Spread[1])
	}
	return t
}

// sectionData has all rows of a section.
func sectionData(s *Section) *table.Table {
	t := &table.Table{Name: s.Report, Reason: s.Reason, Columns: []table.Column{{Key: "name"}, {Key: "base_name"},
		{Key: "matched_by"}, {Key: "verdict"}, {Key: "added", Unit: table.Rate},
		{Key: "base_spread", Unit: table.Rate}, {Key: "new_spread", Unit: table.Rate}}}
	if t.Reason == "" && len(s.Rows) == 0 {
		t.Reason = "no rows on either side"
	}
	for _, c := range s.columns() {
		t.Columns = append(t.Columns, table.Column{Key: "base_" + c.Key, Unit: c.Unit},
			table.Column{Key: "new_" + c.Key, Unit: c.Unit}, table.Column{Key: "q_" + c.Key, Unit: table.Rate})
	}
	for _, r := range s.Rows {
		row := []any{
			r.Name, orNothing(r.Was), orNothing(r.Match), orNothing(strings.Join(r.Verdicts, ", ")), r.Added, nil, nil,
		}
		if r.Main >= 0 {
			c := r.Figures[r.Main]
			row[5], row[6] = c.Spread[0], c.Spread[1]
		}
		for _, c := range r.Figures {
			row = append(row, c.Base, c.New, c.Q)
		}
		t.Add(row...)
	}
	return t
}

// A suite and its cases are elements of JUnit's XML.
type suite struct {
	XMLName  xml.Name   `xml:"testsuite"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Cases    []testCase `xml:"testcase"`
}

type testCase struct {
	Class   string  `xml:"classname,attr"`
	Name    string  `xml:"name,attr"`
	Failure *result `xml:"failure"`
	Error   *result `xml:"error"`
}

type result struct {
	Message string `xml:"message,attr"`
}

// class is the class of all cases.
const class = "cudatrace.diff"

// WriteJUnit writes a test case for each condition, and one that reports whether the runs may be
// compared.
func (p *Page) WriteJUnit(w io.Writer) error {
	comparable := testCase{Class: class, Name: "BASE and NEW can be compared"}
	all := suite{Name: "cudatrace diff", Cases: []testCase{comparable}}
	if len(p.Refused) > 0 {
		var words []string
		for _, x := range p.Refused {
			words = append(words, x.Refusal())
		}
		all.Cases[0].Error = &result{strings.Join(words, "; ")}
		all.Errors++
	}
	for _, o := range p.Outcomes {
		c := testCase{Class: class, Name: o.Text}
		switch o.State {
		case Failed:
			c.Failure = &result{o.Verdict()}
			all.Failures++
		case Broken:
			c.Error = &result{o.Verdict()}
			all.Errors++
		}
		all.Cases = append(all.Cases, c)
	}
	all.Tests = len(all.Cases)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
