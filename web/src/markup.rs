//! `html!` with the syntax of yew's, made of small calls instead of whole nodes written out in place: a third of the code.
//!
//! Elements, attributes, `{ value }`, `{ for values }`, `if` and `else` are as there. Components are not known: `yew::html!` makes
//! them, inside of braces. Elements are closed as they were opened, which the tests of the page and debug builds check.

use std::borrow::Cow;
use std::rc::Rc;
use yew::html::NodeRef;
use yew::virtual_dom::{AttrValue, Key, Listener, VList, VNode, VTag, VText};
use yew::{Classes, Html, html::IntoPropValue};

/// Nodes as they are written, from the first to the last.
pub struct Markup {
    /// What is open, the outermost first; that one is all of it.
    open: Vec<Node>,
}

/// An element or, without a tag, a list of nodes.
struct Node {
    name: &'static str,
    tag: Option<VTag>,
    key: Option<Key>,
    listeners: Vec<Option<Rc<dyn Listener>>>,
    children: Vec<VNode>,
}

impl Node {
    fn list() -> Self {
        Self { name: "", tag: None, key: None, listeners: Vec::new(), children: Vec::new() }
    }

    fn done(self) -> VNode {
        let Some(mut tag) = self.tag else { return VList::with_children(self.children, self.key).into() };
        tag.key = self.key;
        if !self.listeners.is_empty() {
            tag.set_listeners(self.listeners.into());
        }
        if let Some(place) = tag.children_mut().filter(|_| !self.children.is_empty()) {
            *place = VList::with_children(self.children, None).into();
        }
        tag.into()
    }
}

impl Markup {
    /// Nothing yet. In a box, so that calls pass a pointer that is there, not an address that each of them computes.
    pub fn new() -> Box<Self> {
        Box::new(Self { open: vec![Node::list()] })
    }

    /// All of it: the only node, or a list.
    #[expect(clippy::boxed_local, reason = "as it was begun")]
    pub fn done(mut self: Box<Self>) -> Html {
        debug_assert_eq!(self.open.len(), 1, "an element is not closed");
        let Some(mut all) = self.open.pop() else { return Html::default() };
        if all.children.len() == 1 {
            return all.children.remove(0);
        }
        all.done()
    }

    fn now(&mut self) -> &mut Node {
        if self.open.is_empty() {
            self.open.push(Node::list());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    /// An element begins.
    pub fn open(&mut self, name: &'static str) {
        self.open.push(Node { name, tag: Some(VTag::new(AttrValue::Static(name))), ..Node::list() });
    }

    /// An element of a class begins, as most do.
    pub fn open_of(&mut self, name: &'static str, class: &'static str) {
        self.open(name);
        self.set("class", class);
    }

    /// A list of nodes begins, which is one node to its siblings.
    pub fn list(&mut self) {
        self.open.push(Node::list());
    }

    /// What was opened last ends.
    pub fn close(&mut self, name: &str) {
        if let Some(node) = self.open.pop() {
            debug_assert!(name.is_empty() || name == node.name, "<{}> is closed by </{name}>", node.name);
            self.push(node.done());
        }
    }

    /// A node.
    pub fn push(&mut self, node: VNode) {
        self.now().children.push(node);
    }

    /// Text of the program.
    pub fn fixed(&mut self, text: &'static str) {
        self.push(VText::new(AttrValue::Static(text)).into());
    }

    /// Text.
    pub fn text(&mut self, text: &str) {
        self.push(VText::new(AttrValue::Rc(text.into())).into());
    }

    /// Something that can be shown.
    pub fn child(&mut self, child: impl Child) {
        child.put(self);
    }

    /// Each of them.
    pub fn children(&mut self, children: impl IntoIterator<Item: Child>) {
        children.into_iter().for_each(|c| c.put(self));
    }

    /// The key of the open element among its siblings.
    pub fn key(&mut self, key: impl Into<Key>) {
        self.now().key = Some(key.into());
    }

    /// Refers to the open element.
    pub fn refer(&mut self, to: NodeRef) {
        if let Some(tag) = &mut self.now().tag {
            tag.node_ref = to;
        }
    }

    /// An event of the open element.
    pub fn listen(&mut self, listener: Option<Rc<dyn Listener>>) {
        self.now().listeners.push(listener);
    }

    /// An attribute of the program.
    pub fn set(&mut self, name: &'static str, value: &'static str) {
        self.put(name, Value::Text(AttrValue::Static(value)));
    }

    /// An attribute.
    pub fn attr(&mut self, name: &'static str, value: impl Into<Value>) {
        self.put(name, value.into());
    }

    fn put(&mut self, name: &'static str, value: Value) {
        let Node { name: element, tag: Some(tag), .. } = self.now() else { return };
        match (name, value) {
            ("checked", Value::Is(is)) => tag.set_checked(is),
            ("value", Value::Text(text)) if matches!(*element, "input" | "textarea") => tag.set_value(Some(text)),
            (_, Value::None | Value::Is(false)) => {}
            (_, Value::Is(true)) => tag.add_attribute(name, AttrValue::Static(name)),
            (_, Value::Text(text)) => tag.add_attribute(name, text),
        }
    }
}

/// What can stand between braces.
pub trait Child {
    /// Adds it to the open element.
    fn put(self, to: &mut Markup);
}

impl Child for Html {
    fn put(self, to: &mut Markup) {
        to.push(self);
    }
}

impl Child for &Html {
    fn put(self, to: &mut Markup) {
        to.push(self.clone());
    }
}

impl<T: Child> Child for Option<T> {
    fn put(self, to: &mut Markup) {
        if let Some(child) = self {
            child.put(to);
        }
    }
}

impl<T: Child> Child for Vec<T> {
    fn put(self, to: &mut Markup) {
        self.into_iter().for_each(|c| c.put(to));
    }
}

/// Texts, and what is shown as one.
macro_rules! texts {
    ($($name:ty)*) => { $(
        impl Child for $name {
            fn put(self, to: &mut Markup) {
                to.text(self.as_ref());
            }
        }
    )* };
}
texts!(&str String &String &&str Cow<'_, str> &Cow<'_, str> &AttrValue);

impl Child for usize {
    fn put(self, to: &mut Markup) {
        to.text(&self.to_string());
    }
}

impl Child for u32 {
    fn put(self, to: &mut Markup) {
        to.text(&self.to_string());
    }
}

/// What an attribute says.
pub enum Value {
    /// It is not there.
    None,
    /// It is there, or not.
    Is(bool),
    /// A text.
    Text(AttrValue),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(AttrValue::Static(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone().into())
    }
}

impl From<AttrValue> for Value {
    fn from(text: AttrValue) -> Self {
        Self::Text(text)
    }
}

impl From<Classes> for Value {
    fn from(classes: Classes) -> Self {
        Self::Text(classes.into_prop_value())
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Is(is)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// As yew's, without components.
macro_rules! html {
    () => { ::yew::Html::default() };
    ($($all:tt)+) => {{
        let mut markup = $crate::markup::Markup::new();
        $crate::markup::nodes!(markup $($all)+);
        markup.done()
    }};
}

/// The nodes that follow.
macro_rules! nodes {
    ($m:ident) => {};
    ($m:ident < > $($rest:tt)*) => { $m.list(); $crate::markup::nodes!($m $($rest)*); };
    ($m:ident < / > $($rest:tt)*) => { $m.close(""); $crate::markup::nodes!($m $($rest)*); };
    ($m:ident < / $tag:ident > $($rest:tt)*) => { $m.close(stringify!($tag)); $crate::markup::nodes!($m $($rest)*); };
    ($m:ident < $tag:ident class = $class:literal $($rest:tt)*) => {
        $m.open_of(stringify!($tag), $class);
        $crate::markup::attributes!($m $($rest)*);
    };
    ($m:ident < $tag:ident $($rest:tt)*) => {
        $m.open(stringify!($tag));
        $crate::markup::attributes!($m $($rest)*);
    };
    ($m:ident { for $($each:tt)* } $($rest:tt)*) => { $m.children($($each)*); $crate::markup::nodes!($m $($rest)*); };
    ($m:ident { $text:literal } $($rest:tt)*) => { $m.fixed($text); $crate::markup::nodes!($m $($rest)*); };
    ($m:ident { $($child:tt)* } $($rest:tt)*) => { $m.child($($child)*); $crate::markup::nodes!($m $($rest)*); };
    ($m:ident if $($rest:tt)*) => { $crate::markup::either!($m [] [if] $($rest)*); };
}

/// An `if` whose condition is read so far; the branches before it are in the first brackets.
macro_rules! either {
    ($m:ident [$($done:tt)*] [$($so_far:tt)*] { $($then:tt)* } else if $($rest:tt)*) => {
        $crate::markup::either!($m [$($done)* $($so_far)* { $m.list(); $crate::markup::nodes!($m $($then)*); } else] [if] $($rest)*);
    };
    ($m:ident [$($done:tt)*] [$($so_far:tt)*] { $($then:tt)* } else { $($otherwise:tt)* } $($rest:tt)*) => {
        $($done)* $($so_far)* { $m.list(); $crate::markup::nodes!($m $($then)*); }
        else { $m.list(); $crate::markup::nodes!($m $($otherwise)*); }
        $m.close("");
        $crate::markup::nodes!($m $($rest)*);
    };
    ($m:ident [$($done:tt)*] [$($so_far:tt)*] { $($then:tt)* } $($rest:tt)*) => {
        $($done)* $($so_far)* { $m.list(); $crate::markup::nodes!($m $($then)*); } else { $m.list(); }
        $m.close("");
        $crate::markup::nodes!($m $($rest)*);
    };
    ($m:ident [$($done:tt)*] [$($so_far:tt)*] $next:tt $($rest:tt)*) => {
        $crate::markup::either!($m [$($done)*] [$($so_far)* $next] $($rest)*);
    };
}

/// The attributes that follow, up to the end of the tag.
macro_rules! attributes {
    ($m:ident > $($rest:tt)*) => { $crate::markup::nodes!($m $($rest)*); };
    ($m:ident / > $($rest:tt)*) => { $m.close(""); $crate::markup::nodes!($m $($rest)*); };
    ($m:ident key = { $($value:tt)* } $($rest:tt)*) => { $m.key($($value)*); $crate::markup::attributes!($m $($rest)*); };
    ($m:ident ref = { $($value:tt)* } $($rest:tt)*) => { $m.refer($($value)*); $crate::markup::attributes!($m $($rest)*); };
    ($m:ident { $name:ident } $($rest:tt)*) => { $m.attr(stringify!($name), $name); $crate::markup::attributes!($m $($rest)*); };
    ($m:ident $name:ident = $value:literal $($rest:tt)*) => {
        $m.set(stringify!($name), $value);
        $crate::markup::attributes!($m $($rest)*);
    };
    ($m:ident $a:ident - $b:ident = $value:literal $($rest:tt)*) => {
        $m.set(concat!(stringify!($a), "-", stringify!($b)), $value);
        $crate::markup::attributes!($m $($rest)*);
    };
    ($m:ident $a:ident - $b:ident = { $($value:tt)* } $($rest:tt)*) => {
        $m.attr(concat!(stringify!($a), "-", stringify!($b)), $($value)*);
        $crate::markup::attributes!($m $($rest)*);
    };
    ($m:ident $name:ident = { $($value:tt)* } $($rest:tt)*) => {
        $crate::markup::attribute!($m $name $($value)*);
        $crate::markup::attributes!($m $($rest)*);
    };
}

/// An event or another attribute.
macro_rules! attribute {
    ($m:ident onchange $($value:tt)*) => { $m.listen(::yew::html::onchange::Wrapper::__macro_new($($value)*)); };
    ($m:ident onclick $($value:tt)*) => { $m.listen(::yew::html::onclick::Wrapper::__macro_new($($value)*)); };
    ($m:ident onfocusin $($value:tt)*) => { $m.listen(::yew::html::onfocusin::Wrapper::__macro_new($($value)*)); };
    ($m:ident onfocusout $($value:tt)*) => { $m.listen(::yew::html::onfocusout::Wrapper::__macro_new($($value)*)); };
    ($m:ident oninput $($value:tt)*) => { $m.listen(::yew::html::oninput::Wrapper::__macro_new($($value)*)); };
    ($m:ident onkeydown $($value:tt)*) => { $m.listen(::yew::html::onkeydown::Wrapper::__macro_new($($value)*)); };
    ($m:ident onpointercancel $($value:tt)*) => { $m.listen(::yew::html::onpointercancel::Wrapper::__macro_new($($value)*)); };
    ($m:ident onpointerdown $($value:tt)*) => { $m.listen(::yew::html::onpointerdown::Wrapper::__macro_new($($value)*)); };
    ($m:ident onpointerleave $($value:tt)*) => { $m.listen(::yew::html::onpointerleave::Wrapper::__macro_new($($value)*)); };
    ($m:ident onpointermove $($value:tt)*) => { $m.listen(::yew::html::onpointermove::Wrapper::__macro_new($($value)*)); };
    ($m:ident onpointerup $($value:tt)*) => { $m.listen(::yew::html::onpointerup::Wrapper::__macro_new($($value)*)); };
    ($m:ident $name:ident $($value:tt)*) => { $m.attr(stringify!($name), $($value)*); };
}

pub(crate) use {attribute, attributes, either, html, nodes};
