// SPDX-License-Identifier: Apache-2.0
//! A shop's server in memory, with what Rust programs keep their data in: structures in vectors,
//! maps, boxes, trait objects, counted references, text. It runs until its input ends.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

#[derive(Clone, Debug)]
struct Address {
    street: String,
    city: String,
    number: u32,
}

#[derive(Debug)]
struct Customer {
    name: String,
    addresses: Vec<Address>,
    orders: Vec<u64>,
    note: Option<Box<Note>>,
}

#[derive(Debug)]
struct Note {
    text: String,
    stars: u8,
}

#[derive(Debug)]
struct Item {
    title: String,
    cents: u64,
    tags: Vec<String>,
}

struct Order {
    id: u64,
    customer: Arc<Mutex<Customer>>,
    items: Vec<(Arc<Item>, u32)>,
    payment: Box<dyn Payment + Send + Sync>,
}

trait Payment {
    fn label(&self) -> String;
}

struct Card {
    number: String,
    until: (u16, u16),
}

struct Invoice {
    address: Address,
    days: u32,
}

impl Payment for Card {
    fn label(&self) -> String {
        format!("card {} {}/{}", self.number, self.until.0, self.until.1)
    }
}

impl Payment for Invoice {
    fn label(&self) -> String {
        format!("invoice {} in {} days", self.address.street, self.days)
    }
}

struct Shop {
    customers: HashMap<String, Arc<Mutex<Customer>>>,
    items: BTreeMap<u64, Arc<Item>>,
    orders: HashMap<u64, Order>,
    log: VecDeque<String>,
    handlers: Vec<Box<dyn Fn(&Order) -> usize + Send>>,
}

static SHOP: Mutex<Option<Shop>> = Mutex::new(None);

fn address(i: u64) -> Address {
    Address { street: format!("{} Long Street", i), city: format!("City number {}", i % 50), number: i as u32 }
}

fn customer(i: u64) -> Customer {
    let note = if i % 3 == 0 { Some(Box::new(Note { text: format!("a note on customer {}", i), stars: (i % 5) as u8 })) } else { None };
    Customer { name: format!("Customer {}", i), addresses: (0..1 + i % 3).map(address).collect(), orders: Vec::new(), note }
}

fn order(shop: &Shop, id: u64, customers: u64) -> Order {
    let customer = shop.customers[&format!("customer-{}", id % customers)].clone();
    customer.lock().unwrap().orders.push(id);
    let items = (0..1 + id % 4).map(|k| (shop.items[&((id * 7 + k) % 500)].clone(), 1 + k as u32)).collect();
    let payment: Box<dyn Payment + Send + Sync> = if id % 2 == 0 {
        Box::new(Card { number: format!("4000-{:08}", id), until: (12, 2030) })
    } else {
        Box::new(Invoice { address: address(id), days: 30 })
    };
    Order { id, customer, items, payment }
}

fn fill(customers: u64, orders: u64) -> Shop {
    let mut shop = Shop { customers: HashMap::new(), items: BTreeMap::new(), orders: HashMap::new(), log: VecDeque::new(), handlers: Vec::new() };
    for i in 0..customers {
        shop.customers.insert(format!("customer-{}", i), Arc::new(Mutex::new(customer(i))));
    }
    for i in 0..500 {
        let tags = (0..i % 4).map(|k| format!("tag-{}-{}", i, k)).collect();
        shop.items.insert(i, Arc::new(Item { title: format!("Item {} of the shop", i), cents: 100 + i, tags }));
    }
    for i in 0..orders {
        let new = order(&shop, i, customers);
        shop.log.push_back(format!("order {} by {}", new.id, new.payment.label()));
        shop.orders.insert(i, new);
    }
    for i in 0..20usize {
        let word = format!("handler {}", i);
        shop.handlers.push(Box::new(move |order| word.len() + order.items.len()));
    }
    shop
}

fn main() {
    *SHOP.lock().unwrap() = Some(fill(1000, 3000));
    let (send, receive) = mpsc::channel::<Order>();
    let worker = thread::spawn(move || receive.iter().map(|order| order.items.len()).sum::<usize>());
    let kept: Vec<Item> = (0..100).map(|i| Item { title: format!("kept by main {}", i), cents: i, tags: Vec::new() }).collect();
    println!("READY");
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    drop(send);
    let shop = SHOP.lock().unwrap();
    let shop = shop.as_ref().unwrap();
    let handled: usize = shop.orders.values().map(|order| shop.handlers[0](order)).sum();
    let names: usize = shop.customers.values().map(|customer| {
        let customer = customer.lock().unwrap();
        let note = customer.note.as_ref().map_or(0, |note| note.text.len() + note.stars as usize);
        let addresses: usize = customer.addresses.iter().map(|address| address.street.len() + address.city.len() + address.number as usize).sum();
        customer.name.len() + note + addresses
    }).sum();
    let items: usize = shop.items.values().chain(std::iter::empty()).map(|item| item.tags.len() + item.cents as usize + item.title.len()).sum();
    println!("{} {} {} {} {}", handled, names, items, kept.len(), worker.join().unwrap());
}
