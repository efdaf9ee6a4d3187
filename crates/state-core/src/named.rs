//! Enums with a name for each variant.

/// Declares an enum together with the name of each variant, under which it is stored and shown.
macro_rules! named {
    (
        $(#[$of_type:meta])*
        pub enum $type:ident {
            $($(#[$of_variant:meta])* $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$of_type])*
        pub enum $type {
            $($(#[$of_variant])* $variant,)+
        }

        impl $type {
            /// All variants, in the order of their declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name under which the variant is stored and shown.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
