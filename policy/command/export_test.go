package command

import (
	"fmt"
	"strings"
)

// Tables returns the tables of the checks as the document shows them, by
// check.
func Tables() map[string]string {
	pattern, interpreter := patternRows(), append(interpreterRows(), runnerRows()...)
	out := map[string]string{
		"pattern": rowTable(pattern), "interpreter": rowTable(interpreter),
	}
	var b strings.Builder
	b.WriteString("| construct | severity | mark | hint |\n|---|---|---|---|\n")
	for _, c := range constructs() {
		fmt.Fprintf(&b, "| `%s` %s | %s | %s | %s |\n", c.kind, cell(c.message), c.severity, c.mark.name(), cell(c.hint))
	}
	out["metacharacter"] = b.String()
	b.Reset()
	b.WriteString("| variables | severity | mark | why |\n|---|---|---|---|\n")
	for _, v := range variableEntries() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", codes(v.names), v.severity, v.mark.name(), cell(v.message))
	}
	fmt.Fprintf(&b, "\nRules look past these: %s.\n", codes(safeVariables))
	out["variable"] = b.String()
	return out
}

// rowTable writes the rows that share a name, a severity and a mark in one
// line.
func rowTable(rows []row) string {
	var b strings.Builder
	b.WriteString("| entry | programs | with | severity | mark | what |\n|---|---|---|---|---|---|\n")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n",
			r.rule, codes(r.programs), r.condition(), r.severity, r.mark.name(), cell(r.message))
	}
	return b.String()
}

// condition tells what else has to hold.
func (r *row) condition() string {
	var parts []string
	for _, p := range []struct{ word, list string }{
		{"", strings.ReplaceAll(r.sub, "|", " / ")}, {"", r.options}, {"operand", r.operand}, {"path", r.path}, {"word", r.argument},
	} {
		switch {
		case p.list == "":
		case p.word == "" && p.list == strings.ReplaceAll(r.sub, "|", " / "):
			parts = append(parts, "`"+cell(p.list)+"`")
		default:
			parts = append(parts, strings.TrimSpace(p.word+" "+codes(p.list)))
		}
	}
	if r.when != nil {
		parts = append(parts, "by its arguments")
	}
	return strings.Join(parts, ", ")
}

// codes writes a list of words, cut where it becomes long.
func codes(list string) string {
	words := strings.Fields(list)
	more := ""
	if len(words) > 14 {
		more = fmt.Sprintf(" and %d more", len(words)-12)
		words = words[:12]
	}
	for i, w := range words {
		words[i] = "`" + cell(w) + "`"
	}
	return strings.Join(words, " ") + more
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func (m mark) name() string { return [...]string{"", "never", "unknown", "deny"}[m] }
