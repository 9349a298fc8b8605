""".proto files that use every feature, for the parser and the printer."""

FILES = {
    "nothing": 'syntax = "proto3";\n',
    "no syntax": "message M { optional int32 a = 1; }",
    "scalars": """
        syntax = "proto3";
        message M {
          double a = 1; float b = 2; int32 c = 3; int64 d = 4; uint32 e = 5; uint64 f = 6; sint32 g = 7; sint64 h = 8;
          fixed32 i = 9; fixed64 j = 10; sfixed32 k = 11; sfixed64 l = 12; bool m = 13; string n = 14; bytes o = 15;
          repeated int32 p = 16; optional string q = 0x11; repeated string r = 022;
        }
    """,
    "types": """
        syntax = "proto3";
        package a.b.c;
        message M {
          N n = 1; M.I i = 2; I j = 3; .a.b.c.N k = 4; c.N l = 5; b.c.N m = 6; a.b.c.M.I.J o = 7; E e = 8; I.J.K p = 9;
          message I { message J { enum K { Z = 0; } K k = 1; I i = 2; M m = 3; } J j = 1; }
        }
        enum E { E0 = 0; E1 = -1; E2 = 0x10; }
        message N { E e = 1; }
    """,
    "maps and oneofs": """
        syntax = "proto3";
        message M {
          map<string, int32> a_b = 1; map<int64, M> m = 2; map<bool, E> e = 3 [deprecated = true];
          oneof one { int32 x = 4; string y = 5; M z = 6; }
          int32 between = 7;
          oneof two { bytes w = 8; }
          optional int32 o1 = 9; optional M o2 = 10;
        }
        enum E { A = 0; }
    """,
    "reserved": """
        syntax = "proto3";
        message M { reserved 1, 3 to 5, 100 to max; reserved "a", "b"; int32 c = 2; }
        enum E { reserved 5 to 7, 9, -3 to -1, 1000 to max; reserved "X"; A = 0; }
    """,
    "options": """
        syntax = "proto3";
        package p;
        import "google/protobuf/descriptor.proto";
        option java_package = "com.example"; option java_multiple_files = true; option optimize_for = LITE_RUNTIME;
        option go_package = "a/b;c"; option cc_enable_arenas = false;
        message M {
          option deprecated = true;
          int32 a = 1 [deprecated = true, json_name = "A"]; repeated int32 b = 2 [packed = false];
          string c = 3 [ctype = CORD]; int64 d = 4 [jstype = JS_STRING];
        }
        enum E { option allow_alias = true; A = 0; B = 0 [deprecated = true]; }
        service S { option deprecated = true; rpc R (M) returns (M) { option idempotency_level = NO_SIDE_EFFECTS; } }
    """,
    "services": """
        syntax = "proto3";
        message Q {} message A {}
        service S { rpc One (Q) returns (A); rpc Two (stream Q) returns (A) {} rpc Three (Q) returns (stream .A); ; }
    """,
    "well-known types": """
        syntax = "proto3";
        import "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto"; import "google/protobuf/wrappers.proto";
        import "google/protobuf/struct.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/empty.proto";
        import "google/protobuf/field_mask.proto"; import public "google/protobuf/type.proto"; import "google/protobuf/api.proto";
        message M {
          google.protobuf.Timestamp a = 1; .google.protobuf.Any b = 2; repeated google.protobuf.StringValue c = 3;
          google.protobuf.Struct d = 4; google.protobuf.Duration e = 5; google.protobuf.Empty f = 6;
          google.protobuf.FieldMask g = 7; google.protobuf.Option h = 8; google.protobuf.Method i = 9;
        }
    """,
    "proto2": r"""
        syntax = "proto2";
        package q;
        message M {
          required int32 a = 1 [default = -5]; optional string b = 2 [default = "x\"\n\\y"]; repeated M c = 3;
          optional bytes d = 4 [default = "\x00\377z"]; optional bool e = 5 [default = true];
          optional double f = 6 [default = -1.5]; optional float g = 7 [default = inf]; optional double h = 8 [default = nan];
          optional E i = 9 [default = TWO]; optional uint64 j = 10 [default = 0xffffffffffffffff]; optional float k = 11 [default = 2];
          optional group Grp = 12 { optional int32 x = 1; repeated group H = 2 { optional M m = 1; } }
          extensions 100 to 199, 500; extensions 1000 to max;
          extend M { optional int32 inner = 150; }
          oneof o { int32 p = 13; group Q = 14 { optional int32 x = 1; } }
          optional double l = 15 [default = 1e10]; optional double m = 16 [default = .5];
        }
        enum E { ONE = 1; TWO = 2; }
        extend M { optional string outer = 100; repeated M more = 500; }
    """,
    "names that are keywords": """
        syntax = "proto3";
        message message { int32 message = 1; string optional = 2; bool package = 3; string syntax = 4; }
        message Other {
          string map = 1; string repeated = 2; string oneof = 3; string reserved = 4; string option = 5; string enum = 6;
          string extend = 7; string extensions = 8; string import = 9; string to = 10; string max = 11; string rpc = 12;
        }
    """,
    "strings": """
        syntax = 'proto3';
        option java_package = 'it' "'s" ' one';
        message M { int32 a = 1 [json_name = 'q"uo\\te']; }
    """,
    "empty statements and comments": """
        // first
        syntax = "proto3";;
        /* second
           // inside */
        ; message M { ; int32 a = 1 /* here */ ; ; // there
        enum E { ; A = 0; ; } oneof o { int32 b = 2; } ; };
    """,
}  # fmt: skip
