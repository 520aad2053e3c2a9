// SPDX-License-Identifier: Apache-2.0
//! A Qt program with its data in Qt's containers, some widgets that are connected, and an image; it runs
//! until it is killed. Qt's private headers are here so that a debugger knows what Qt keeps of objects.

#include <QApplication>
#include <QByteArray>
#include <QHash>
#include <QLabel>
#include <QList>
#include <QMap>
#include <QPushButton>
#include <QSet>
#include <QString>
#include <QTimer>
#include <QVBoxLayout>
#include <QVector>
#include <private/qimage_p.h>
#include <private/qobject_p.h>

struct Book {
	QString title;
	QByteArray scan;
	QVector<int> pages;
	QList<QString> authors;
	double price;
};

struct Shelf {
	QList<Book> books;
	QHash<QString, Book *> by_title;
	QHash<int, int> sold;
	QSet<QString> words;
	QVector<double> prices;
	QList<QLabel *> labels;
};

static Shelf *shelf;
static QObjectPrivate *parts[100];
static QImageData *picture;

static Book book(int i)
{
	Book b{ QString("Book number %1").arg(i), QByteArray(20 + i % 40, char('a' + i % 20)), {}, {}, i / 3.0 };

	for (int k = 0; k < i % 7; k++)
		b.pages.append(i * k);
	for (int k = 0; k < 1 + i % 3; k++)
		b.authors.append(QString("Author %1 of many").arg((i + k) % 100));
	return b;
}

int main(int argc, char **argv)
{
	QApplication application(argc, argv);
	QWidget window;
	QVBoxLayout layout(&window);

	shelf = new Shelf;
	for (int i = 0; i < 2000; i++) {
		shelf->books.append(book(i));
		shelf->by_title.insert(shelf->books.last().title, new Book(book(i + 5000)));
		shelf->sold.insert(i, i * i);
		shelf->words.insert(QString("word %1").arg(i % 300));
		shelf->prices.append(i / 7.0);
	}
	for (int i = 0; i < 50; i++) {
		shelf->labels.append(new QLabel(QString("label %1").arg(i)));
		layout.addWidget(shelf->labels.last());

		QPushButton *button = new QPushButton(QString("button %1").arg(i));
		QLabel *label = shelf->labels.last();

		layout.addWidget(button);
		button->setObjectName(QString("the button of number %1").arg(i));
		QObject::connect(button, &QPushButton::clicked, label, &QLabel::clear);
		QObject::connect(button, &QPushButton::toggled, label, [label] { label->setText("toggled"); });
		parts[2 * i] = QObjectPrivate::get(button);
		parts[2 * i + 1] = QObjectPrivate::get(label);
	}
	QImage image(300, 200, QImage::Format_RGB32);

	image.fill(Qt::red);
	picture = image.data_ptr();
	window.show();
	return application.exec();
}
