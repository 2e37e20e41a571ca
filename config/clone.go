package config

import "reflect"

// cloned returns a copy of s that shares nothing with it.
func cloned(s *Settings) *Settings {
	out := &Settings{}
	deepCopy(reflect.ValueOf(out).Elem(), reflect.ValueOf(s).Elem())
	return out
}

// deepCopy copies plain data: what settings are made of.
func deepCopy(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			deepCopy(to.Elem(), from.Elem())
		}
	case reflect.Struct:
		for i := range from.NumField() {
			deepCopy(to.Field(i), from.Field(i))
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				deepCopy(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for k, v := range from.Seq2() {
				item := reflect.New(from.Type().Elem()).Elem()
				deepCopy(item, v)
				to.SetMapIndex(k, item)
			}
		}
	case reflect.Interface:
		if !from.IsNil() {
			item := reflect.New(from.Elem().Type()).Elem()
			deepCopy(item, from.Elem())
			to.Set(item)
		}
	default:
		to.Set(from)
	}
}
