package schema

// frames are the tables of the log itself. A reader knows them without a schema block.
var frames = []Table{
	{Kind: Kinds, Name: "kinds", Meaning: "the kinds of record, in the schema block", Fields: []Field{
		field("kind", Uint, "number of the kind"),
		field("name", Text, "name"),
		field("meaning", Text, "meaning"),
	}},
	{Kind: Fields, Name: "fields", Meaning: "the fields of all kinds in the order of their numbers, in the schema block",
		Fields: []Field{
			field("kind", Uint, "kind that the field belongs to"),
			field("name", Text, "name"),
			field("type", Uint, "type"),
			field("meaning", Text, "meaning"),
		}},
	{Kind: Index, Name: "index", Meaning: "one row a record block, in index blocks", Fields: []Field{
		field("offset", Uint, "byte of the log at which the block begins"),
		field("kind", Uint, "kind of its records"),
		field("pid", Uint, "process, where all its records have the same, else 0"),
		field("rows", Uint, "number of records"),
		field("min", Uint, "smallest time, 0 when it has none"),
		field("max", Uint, "largest end"),
		field("tid", Uint, "thread, where all its records have the same, else 0"),
		field("device", Uint, "1 + device, where all its records have the same, else 0"),
		field("context", Uint, "1 + context, where all its records have the same, else 0"),
		field("stream", Uint, "1 + stream, where all its records have the same, else 0"),
	}},
	{Kind: Totals, Name: "totals", Meaning: "number of records by kind, in the footer", Fields: []Field{
		field("kind", Uint, "kind"),
		field("rows", Uint, "number of records"),
	}},
	{Kind: Directory, Name: "directory", Meaning: "the index blocks, in the footer", Fields: []Field{
		field("offset", Uint, "byte of the log at which the index block begins"),
		field("rows", Uint, "number of its rows"),
	}},
}
